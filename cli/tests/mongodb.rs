//! Records in MongoDB, for which the program is built with a feature.

#[cfg(all(unix, feature = "mongodb"))]
use std::process::{Child, Command, Stdio};

use crate::support::{runlore, told_by};

/// The server that the tests of the library use, in a folder of its own; it ends with this.
#[cfg(all(unix, feature = "mongodb"))]
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

#[cfg(all(unix, feature = "mongodb"))]
impl Server {
    /// None where none can be had, which is told.
    fn start() -> Option<Self> {
        let python = crate::python::with("secantusdb-0.7.0b3", &["SecantusDB==0.7.0b3"])?;
        let folder = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(python.with_file_name("secantusd-py"));
        command.args(["--port", &port.to_string(), "--log-level", "WARNING", "--storage-path"]);
        command.arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: command.spawn().unwrap(), port, _folder: folder };
        let began = std::time::Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed().as_secs() < 120, "the server does not start");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Some(server)
    }

    fn uri(&self, database: &str) -> String {
        format!("mongodb://localhost:{}/{database}", self.port)
    }
}

#[cfg(all(unix, feature = "mongodb"))]
impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[cfg(all(unix, feature = "mongodb"))]
#[test]
fn a_server_is_recorded_into_asked_copied_and_replayed_to() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let told = |args: &[&str]| told_by(runlore().current_dir(&folder).args(args));
    let (lab, other) = (server.uri("lab"), server.uri("other"));

    let demo = told(&["--store", &lab, "demo"]);
    assert!(demo.contains("recorded run") && !demo.contains("---"), "{demo}");
    let listed = told(&["--store", &lab, "ls", "--json"]);
    let run: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let tasks = run["totals"]["tasks"].as_u64().unwrap();
    assert!(run["name"] == "demo" && tasks > 3, "{listed}");
    let failed = told(&["--store", &lab, "query", r#"{"status": "ERROR"}"#, "--json"]);
    let failed: Vec<serde_json::Value> =
        failed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!failed.is_empty() && failed.iter().all(|task| task["status"] == "ERROR"));

    // Twice: a record that is there is not written again.
    for _ in 0..2 {
        let copied = told(&["copy", &lab, "copied.db"]);
        assert!(!copied.contains("exit code"), "{copied}");
        let back = told(&["copy", "copied.db", &other]);
        assert!(!back.contains("exit code"), "{back}");
    }
    let all = |store: &str| told(&["--store", store, "query", "{}", "--sort", "task_id", "--json"]);
    assert_eq!(all(&lab).lines().count() as u64, tasks);
    assert_eq!(all(&lab), all(&other));

    // What was recorded while the server was away.
    let away = server.uri("away").replace(&server.port.to_string(), "1");
    let demo = told(&["--store", &away, "demo"]);
    assert!(demo.contains("records wait in"), "{demo}");
    let to = server.uri("away");
    let replayed = told(&["replay", "runlore/mongodb", "--from", &away, "--to", &to]);
    assert!(!replayed.contains("exit code"), "{replayed}");
    assert_eq!(all(&to).lines().count() as u64, tasks, "{replayed}");
}

#[cfg(not(feature = "mongodb"))]
#[test]
fn a_program_that_is_built_without_it_says_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = ["--store", "mongodb://localhost/lab"];
    for command in ["ls", "demo"] {
        let told = told_by(runlore().current_dir(&folder).args(store).arg(command));
        assert!(told.contains("built without `mongodb://`"), "{told}");
        assert!(told.contains("`cargo install --path cli --features mongodb`"), "{told}");
        assert!(told.contains("exit code Some(1)"), "{told}");
    }
}

#[cfg(not(feature = "mongodb"))]
#[test]
fn of_the_stores_in_the_settings_one_that_it_can_open_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let set = |databases: &str| {
        std::fs::write(folder.path().join("settings.yaml"), databases).unwrap();
    };
    set("databases:\n  mongodb:\n    enabled: yes\n");
    told_by(runlore().current_dir(&folder).args(["--store", "runlore", "demo"]));
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("which this program is built without; ./runlore is read"), "{told}");
    assert!(told.contains("`cargo install --path cli --features mongodb`"), "{told}");
    assert!(told.contains("demo") && !told.contains("exit code"), "{told}");
    set("databases:\n  mongodb:\n    enabled: yes\n  jsonl:\n    enabled: no\n");
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("built without `mongodb://`"), "{told}");
    assert!(told.contains("exit code Some(1)"), "{told}");
}

#[cfg(feature = "mongodb")]
#[test]
fn the_server_of_the_settings_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let databases = "databases:\n  mongodb:\n    enabled: yes\n    port: 1\n    db: lab\n";
    std::fs::write(folder.path().join("settings.yaml"), databases).unwrap();
    let told = told_by(runlore().current_dir(&folder).arg("ls"));
    assert!(told.contains("no MongoDB server answers at mongodb://localhost:1/lab"), "{told}");
}

/// Whether there is a server or not: this one is away.
#[cfg(feature = "mongodb")]
#[test]
fn a_server_that_is_away_is_told_and_what_waits_for_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let here = |args: &[&str]| {
        let mut command = runlore();
        command.current_dir(&folder).args(["--store", "mongodb://ann:hunter2@localhost:1/lab"]);
        command.args(args);
        command
    };
    let told = told_by(&mut here(&["demo"]));
    assert!(told.contains("records wait in") && told.contains("recorded run"), "{told}");
    let doctor = here(&["doctor", "mem", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(report["stores"][0]["answers"], false);
    let reason = report["stores"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no MongoDB server answers at mongodb://"), "{reason}");
    let spool = &report["spools"][0];
    assert!(spool["store"].as_str().unwrap().ends_with("localhost:1/lab"), "{spool}");
    let text = told_by(&mut here(&["doctor", "mem"]));
    assert!(text.contains("no MongoDB server answers at"), "{text}");
    assert!(text.contains("of records wait for mongodb://"), "{text}");
    let to = "mongodb://ann:hunter2@localhost:1/other";
    let mut replay = runlore();
    replay.current_dir(&folder).args(["replay", "runlore/mongodb", "--to", to]);
    let replayed = told_by(&mut replay);
    assert!(replayed.contains("localhost:1/other") && replayed.contains("--to"), "{replayed}");
    assert!(!format!("{told}{report}{text}{replayed}").contains("hunter2"));
}
