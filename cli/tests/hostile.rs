//! Hostile folders and paths that cannot be a store: one bad file costs only that file, and nothing hangs.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::runlore;

/// Far beyond what any command takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the program, which must end by itself.
fn ended(command: &mut Command) -> Output {
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while process.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            process.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    process.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

const RECORDS: &str = concat!(
    r#"{"type":"workflow","workflow_id":"w1","name":"good","status":"FINISHED","started_at":1.0,"ended_at":3.0}"#,
    "\n",
    r#"{"type":"task","task_id":"t1","workflow_id":"w1","activity_id":"fit","status":"FINISHED","started_at":1.0,"ended_at":2.0}"#,
    "\n",
);

#[test]
fn one_bad_file_costs_that_file_and_is_told_once() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("store")).unwrap();
    fs::write(at("store/good.jsonl"), RECORDS).unwrap();
    fs::write(at("outside.jsonl"), RECORDS.replace("w1", "secret")).unwrap();
    std::os::unix::fs::symlink(at("outside.jsonl"), at("store/link.jsonl")).unwrap();
    fs::create_dir(at("store/folder.jsonl")).unwrap();
    pipe(&at("store/pipe.jsonl"));

    let commands: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["tasks"],
        &["tree"],
        &["show", "t1"],
        &["stats"],
        &["query", "{}"],
        &["analyze"],
        &["compare", "good", "good"],
        #[cfg(feature = "report")]
        &["report", "-o", "report.html"],
        &["copy", "store", "copied"],
    ];
    for arguments in commands {
        let mut command = runlore();
        command.current_dir(folder.path()).args(*arguments);
        if arguments[0] != "copy" {
            command.args(["--store", "store"]);
        }
        let output = ended(&mut command);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        for (name, reason) in [
            ("link.jsonl", "is a link out of its folder"),
            ("folder.jsonl", "is a folder"),
            ("pipe.jsonl", "is a pipe"),
        ] {
            let about: Vec<&str> = told.lines().filter(|line| line.contains(name)).collect();
            assert!(about.len() == 1 && about[0].contains(reason), "{arguments:?}: {told}");
        }
        assert!(!text(&output.stdout).contains("secret"), "{arguments:?}");
    }
    let copied = ended(runlore().current_dir(folder.path()).args(["--store", "copied", "ls"]));
    assert!(text(&copied.stdout).contains("good"), "{copied:?}");
}

#[test]
fn a_pipe_or_a_device_is_no_store() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("good")).unwrap();
    fs::write(folder.path().join("good/good.jsonl"), RECORDS).unwrap();
    pipe(&folder.path().join("pipe"));
    pipe(&folder.path().join("pipe.db"));
    let whole = |name: &str| folder.path().join(name).display().to_string();
    let stores = [
        ("/dev/zero".to_owned(), "a device"),
        ("jsonl:///dev/zero".to_owned(), "a device"),
        ("sqlite:///dev/zero".to_owned(), "a device"),
        ("pipe".to_owned(), "a pipe"),
        ("pipe.db".to_owned(), "a pipe"),
        (format!("jsonl://{}", whole("pipe")), "a pipe"),
        (format!("sqlite://{}", whole("pipe.db")), "a pipe"),
    ];
    for (store, kind) in &stores {
        let commands: &[&[&str]] = &[
            &["--store", store, "ls"],
            &["--store", store, "tree"],
            &["--store", store, "query", "{}"],
            &["--store", store, "recover"],
            &["--store", store, "demo"],
            &["--store", store, "run", "--", "true"],
            &["copy", store, "copied"],
            &["copy", "good", store],
        ];
        for arguments in commands {
            let output = ended(runlore().current_dir(folder.path()).args(*arguments));
            let told = text(&output.stderr);
            // As other programs that start programs do.
            let code = if arguments.contains(&"run") { 125 } else { 1 };
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
            assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
            assert!(told.contains(&format!("is {kind}: a store is ")), "{arguments:?}: {told}");
        }
        let doctor = ended(runlore().current_dir(folder.path()).args(["--store", store, "doctor"]));
        assert!(text(&doctor.stdout).contains(&format!("is {kind}")), "{store}: {doctor:?}");
    }
    // Nothing is left where a device is.
    assert!(!Path::new("/dev/.spool").exists() && !Path::new("/dev/.rings").exists());
}

/// A task whose texts act on a terminal, or in a spreadsheet.
const ACTING: &str = concat!(
    r#"{"type":"workflow","workflow_id":"w1","name":"bad\u009b31m\u202eline\u001b]0;x\u0007","status":"ERROR","started_at":1.0}"#,
    "\n",
    r#"{"type":"task","task_id":"t1","workflow_id":"w1","activity_id":"=fit\u001b[31m\u007f\u0085","status":"ERROR","#,
    r#""started_at":1.0,"ended_at":2.0,"used":{"x\u202e":"\u001b]0;owned\u0007\u009b"},"stderr":"\u001b[2J\u0080","#,
    r#""error":{"message":"\u001b[2J\u009d\u2066"}}"#,
    "\n",
);

/// Runs the program with a terminal as its standard output; what the terminal was sent.
#[allow(unsafe_code)]
fn on_terminal(command: &mut Command) -> String {
    use std::io::Read as _;
    use std::os::fd::{FromRawFd as _, OwnedFd};
    let (mut ours, mut theirs) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: two places for the descriptors, and nothing else.
    let made =
        unsafe { libc::openpty(&raw mut ours, &raw mut theirs, none, none.cast(), none.cast()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: both are open, and nobody else's.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut process = command.stdout(Stdio::from(theirs)).stderr(Stdio::null()).spawn().unwrap();
    // Ours must be the last hold on the other end.
    command.stdout(Stdio::null());
    let mut told = Vec::new();
    // The end of a terminal is an error on Linux.
    _ = fs::File::from(ours).read_to_end(&mut told);
    process.wait().unwrap();
    String::from_utf8(told).unwrap()
}

#[test]
fn nothing_that_was_recorded_acts_on_a_terminal() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("w.jsonl"), ACTING).unwrap();
    let commands: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["tasks"],
        &["tasks", "--json"],
        &["tree", "--values"],
        &["tree", "--json"],
        &["show", "t1"],
        &["show", "t1", "--json"],
        &["stats"],
        &["stats", "--json"],
        &["stats", "--csv"],
        &["query", "{}"],
        &["query", "{}", "--json"],
        &["query", "{}", "--csv"],
        &["analyze"],
        &["compare", "w1", "w1"],
        &["compare", "w1", "w1", "--json"],
        &["doctor"],
    ];
    for arguments in commands {
        let told = on_terminal(runlore().arg("--store").arg(folder.path()).args(*arguments));
        assert!(!told.is_empty(), "{arguments:?}");
        let mut rest = told.as_str();
        while let Some(at) = rest.find(|c: char| c.is_control() && !"\r\n\t".contains(c)) {
            rest = &rest[at..];
            // Colours and weights of our own: \x1b[1m, but nothing red was ever written by us for `fit`.
            let style = rest
                .strip_prefix("\u{1b}[")
                .and_then(|rest| rest.find('m').map(|end| &rest[..end]));
            let is_style =
                style.is_some_and(|it| it.bytes().all(|b| b.is_ascii_digit() || b == b';'));
            assert!(is_style, "{arguments:?}: {:?} in {told:?}", &rest[..rest.len().min(20)]);
            rest = &rest[1..];
        }
        let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(!told.contains(turns), "{arguments:?}: {told:?}");
        assert!(!told.contains("=fit\u{1b}"), "{arguments:?}: {told:?}");
    }
    let json =
        on_terminal(runlore().arg("--store").arg(folder.path()).args(["query", "{}", "--json"]));
    assert!(json.contains("\\u007f\\u0085"), "{json}");
    // Elsewhere JSON escapes no more than it must, and CSV has no formulas.
    let query = |form: &str| {
        let mut command = runlore();
        command.arg("--store").arg(folder.path()).args([
            "query",
            "{}",
            "--fields",
            "activity_id",
            form,
        ]);
        text(&ended(&mut command).stdout)
    };
    assert!(query("--json").contains("\\u001b[31m") && query("--json").contains('\u{85}'));
    assert!(query("--csv").starts_with("activity_id\n'=fit"), "{}", query("--csv"));
}

#[test]
fn outputs_are_for_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("store")).unwrap();
    fs::write(folder.path().join("store/w.jsonl"), RECORDS).unwrap();
    let commands: &[&[&str]] = &[
        #[cfg(feature = "report")]
        &["--store", "store", "report", "-o", "out/report.html"],
        &["copy", "store", "out/copy"],
        &["copy", "store", "out/copy.db"],
        &["events", "track", "--duration", "0.1", "-o", "out/run.json"],
        &["events", "convert", "out/run.json", "out/more/run.csv"],
    ];
    for arguments in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_runlore")]);
        let output = ended(shell.current_dir(folder.path()).args(*arguments));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    let mut seen = 0;
    let mut folders = vec![folder.path().join("out")];
    while let Some(folder) = folders.pop() {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{folder:?}");
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
            seen += 1;
        }
    }
    assert!(seen >= commands.len(), "{seen}");
}
