//! A server that speaks MongoDB's protocol, for the tests: the one that `RUNLORE_TEST_MONGODB_URI` names, else `mongod`, else
//! SecantusDB from PyPI, in a virtual environment under the target folder.
//!
//! Where none can be had, a test says so and passes, except under `CI=true`. It passes too where `.ci/run` says that nothing
//! it depends on has changed since it last passed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use tempfile::TempDir;

use crate::python;
use crate::support::{expect_success, finished_in_time};

/// A program that is a server, and what it is told for each of the things that tests ask for.
enum Program {
    Mongod,
    Secantus(PathBuf),
}

/// A server of a test's own.
pub(crate) struct Server {
    program: Program,
    folder: TempDir,
    port: u16,
    /// What was asked for when it was started.
    wants: Vec<Want>,
    /// A shell that ends it as soon as this process does, however that comes.
    keeper: Child,
    pid: i32,
}

/// What a server is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// Only users may do something.
    Users,
    /// With the certificate in `tests/data/mongodb`.
    Encryption,
    /// Commands for tests.
    FailPoints,
    /// What it has acknowledged outlives it.
    Durability,
}

/// The URI of a new, empty database on the server that the tests share.
pub(crate) fn database() -> Option<String> {
    if python::is_unchanged("mongodb") {
        return None;
    }
    if let Ok(uri) = std::env::var("RUNLORE_TEST_MONGODB_URI") {
        return Some(at(&uri, &new_name()));
    }
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    Some(SHARED.get_or_init(|| Server::start(&[])).as_ref()?.database())
}

fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let moment = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("runlore_test_{moment}_{}_{number}", std::process::id())
}

/// The URI with this database in it.
fn at(uri: &str, database: &str) -> String {
    let (start, options) = uri.split_once('?').map_or((uri, ""), |(start, rest)| (start, rest));
    let (scheme, rest) = start.split_once("://").unwrap();
    let hosts = rest.split('/').next().unwrap();
    let question = if options.is_empty() { "" } else { "?" };
    format!("{scheme}://{hosts}/{database}{question}{options}")
}

impl Server {
    /// Starts one with an empty folder.
    pub(crate) fn start(wants: &[Want]) -> Option<Self> {
        if python::is_unchanged("mongodb") {
            return None;
        }
        let has_mongod = Command::new("mongod").arg("--version").output().is_ok();
        let program = match has_mongod {
            true => Program::Mongod,
            false => {
                let python = python::with("secantusdb-0.7.0b3", &["SecantusDB==0.7.0b3"])?;
                Program::Secantus(python.with_file_name("secantusd-py"))
            }
        };
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (keeper, pid) = run(&program, folder.path(), port, wants);
        let server = Self { program, folder, port, wants: wants.to_vec(), keeper, pid };
        server.wait();
        Some(server)
    }

    /// The URI of a new, empty database.
    pub(crate) fn database(&self) -> String {
        self.uri(&new_name())
    }

    pub(crate) fn uri(&self, database: &str) -> String {
        let host = self.host();
        match self.wants.contains(&Want::Encryption) {
            false if self.wants.contains(&Want::Durability) => {
                format!("mongodb://{host}/{database}?journal=true")
            }
            false => format!("mongodb://{host}/{database}"),
            true => {
                let authority = data("ca.pem");
                format!("mongodb://{host}/{database}?tls=true&tlsCAFile={}", authority.display())
            }
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Until it takes connections.
    fn wait(&self) {
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(120), "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        kill(self.pid);
        // The shell has nothing more to keep.
        drop(self.keeper.stdin.take());
        _ = self.keeper.wait();
    }

    /// Starts it again where it was, perhaps otherwise than before.
    pub(crate) fn restart(&mut self, wants: &[Want]) {
        self.wants = wants.to_vec();
        (self.keeper, self.pid) = run(&self.program, self.folder.path(), self.port, wants);
        self.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        _ = self.keeper.wait();
    }
}

#[allow(unsafe_code)]
fn kill(pid: i32) {
    // SAFETY: it touches no memory; the process is one that the test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/mongodb").join(name)
}

/// Runs a server below a shell that waits for the end of its input; gives the number of the server's process.
fn run(program: &Program, folder: &Path, port: u16, wants: &[Want]) -> (Child, i32) {
    let log = folder.join("server.log");
    let files = folder.join("files");
    std::fs::create_dir_all(&files).unwrap();
    let port = port.to_string();
    let mut words: Vec<std::ffi::OsString> = Vec::new();
    let mut add = |more: &[&std::ffi::OsStr]| words.extend(more.iter().map(|it| (*it).to_owned()));
    match program {
        Program::Mongod => {
            add(&["mongod".as_ref(), "--port".as_ref(), port.as_ref(), "--bind_ip".as_ref()]);
            add(&["127.0.0.1".as_ref(), "--dbpath".as_ref(), files.as_ref()]);
        }
        Program::Secantus(path) => {
            add(&[path.as_ref(), "--port".as_ref(), port.as_ref()]);
            add(&["--storage-path".as_ref(), files.as_ref()]);
            add(&["--log-level".as_ref(), "WARNING".as_ref()]);
        }
    }
    let is_mongod = matches!(program, Program::Mongod);
    for want in wants {
        match want {
            Want::Users => add(&["--auth".as_ref()]),
            // Of `mongod` the connection asks for it.
            Want::Durability if is_mongod => {}
            Want::Durability => add(&["--sync-on-commit".as_ref()]),
            Want::FailPoints if is_mongod => {
                add(&["--setParameter".as_ref(), "enableTestCommands=1".as_ref()]);
            }
            Want::FailPoints => add(&["--enable-test-commands".as_ref()]),
            Want::Encryption if is_mongod => {
                let both = folder.join("both.pem");
                let key = std::fs::read_to_string(data("server.key")).unwrap();
                let certificate = std::fs::read_to_string(data("server.pem")).unwrap();
                std::fs::write(&both, key + &certificate).unwrap();
                add(&["--tlsMode".as_ref(), "requireTLS".as_ref()]);
                add(&["--tlsCertificateKeyFile".as_ref(), both.as_ref()]);
            }
            Want::Encryption => {
                add(&["--tls-cert-file".as_ref(), data("server.pem").as_ref()]);
                add(&["--tls-key-file".as_ref(), data("server.key").as_ref()]);
            }
        }
    }
    // Not the shell's standard output, which says the number: the reader of that would wait for the server.
    let script = r#"log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!; read -r _; kill -9 $! 2>/dev/null; wait $! 2>/dev/null"#;
    let mut keeper = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&log)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = line.trim().parse().unwrap();
    (keeper, pid)
}

/// Does something with the driver itself.
pub(crate) fn with_driver<T>(
    uri: &str,
    work: impl AsyncFnOnce(mongodb::Database) -> mongodb::error::Result<T>,
) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = mongodb::Client::with_uri_str(uri).await.unwrap();
        let database = client.default_database().unwrap();
        work(database).await.unwrap_or_else(|error| panic!("{error}"))
    })
}

/// All documents of a collection, as they are stored.
pub(crate) fn stored(uri: &str, collection: &'static str) -> Vec<Document> {
    with_driver(uri, async |database| {
        let mut cursor =
            database.collection::<Document>(collection).find(doc! {}).sort(doc! {"_id": 1}).await?;
        let mut documents = Vec::new();
        while cursor.advance().await? {
            documents.push(cursor.deserialize_current()?);
        }
        Ok(documents)
    })
}

/// Waits until the server has all that this process recorded so far: it may be slow, or away for a while.
pub(crate) fn until_stored() {
    let (mut least, mut since) = (u64::MAX, Instant::now());
    // One that fails is tried again.
    while runlore::flush().is_err() || runlore::stats().waiting > 0 {
        let waiting = runlore::stats().waiting;
        if waiting < least {
            (least, since) = (waiting, Instant::now());
        }
        assert!(since.elapsed() < Duration::from_secs(90), "the server does not get what waits");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The queues and spools of a program that records where it stands.
pub(crate) fn queues(folder: &TempDir) -> PathBuf {
    folder.path().join("runlore").join(runlore::store::mongodb::FOLDER)
}

/// Lets a process record; what the server was too slow for is stored afterwards.
pub(crate) fn record_all(command: Command, folder: &TempDir, store: &str) {
    expect_success(&finished_in_time(command));
    runlore::replay(queues(folder).join(".spool"), store, |_| ()).unwrap();
}

/// Runs a test of this binary again, in a process and a folder of its own: where a program keeps its queues for a server.
pub(crate) fn recording(test: &str, store: &str) -> (Command, TempDir) {
    let folder = TempDir::new().unwrap();
    let mut command = crate::support::bare_child(test);
    command.env("STORE", store).current_dir(folder.path());
    (command, folder)
}
