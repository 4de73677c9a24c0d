//! What the tests have in common.

pub(crate) mod random_query;

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use runlore::query::Tree;
use runlore::record::TaskObject;
use runlore::store::MemoryStore;
use serde_json::Value;

/// Runs `work` in a workflow of its own and returns what was recorded.
pub(crate) fn record(work: impl FnOnce()) -> MemoryStore {
    let store = MemoryStore::new();
    // All functions in these tests would be listed, which takes longer than most of the work.
    let run = runlore::workflow("test").without_catalogue().store(store.clone()).start().unwrap();
    work();
    run.finish().unwrap();
    store
}

/// The recorded tasks as a tree, without what differs from run to run.
pub(crate) fn tree(store: &MemoryStore) -> String {
    let tasks = store.tasks().into_iter().map(|mut task| {
        task.duration_ns = None;
        task.ended_at = None;
        sort_values(&mut task);
        task
    });
    Tree::new([], tasks).render().values(true).to_string()
}

/// Puts the values of a task in order: whether maps keep the order in which they were filled is for each build to say.
pub(crate) fn sort_values(task: &mut TaskObject) {
    for values in [&mut task.used, &mut task.generated].into_iter().flatten() {
        let mut sorted = Value::Object(std::mem::take(values));
        sorted.sort_all_objects();
        if let Value::Object(sorted) = sorted {
            *values = sorted;
        }
    }
}

/// The one task of this name.
pub(crate) fn the(store: &MemoryStore, name: &str) -> TaskObject {
    let mut tasks: Vec<_> = store
        .tasks()
        .into_iter()
        .filter(|task| task.activity_id.as_deref() == Some(name))
        .collect();
    assert_eq!(tasks.len(), 1, "tasks named {name}");
    tasks.remove(0)
}

/// Whether this process was started by [`child`] for the test of this name.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var("RUNLORE_TEST_CHILD").is_ok_and(|name| name == test)
}

/// A command that runs one test of this binary again, in a process of its own.
pub(crate) fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env("RUNLORE_TEST_CHILD", test);
    command.env_remove("RUNLORE_CONTEXT").env_remove("RUNLORE_STORE");
    command
}

/// The same, for a test whose records must be small: without telemetry.
pub(crate) fn bare_child(test: &str) -> Command {
    let mut command = child(test);
    for part in ["CPU", "MEM", "PROCESS_INFO", "MACHINE_INFO"] {
        command.env(format!("RUNLORE_TELEMETRY_CAPTURE__{part}"), "no");
    }
    command
}

/// Panics with everything a process said, unless it ended well.
pub(crate) fn expect_success(output: &Output) {
    assert!(
        output.status.success(),
        "{}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Far beyond what anything takes on a busy machine, so that only what hangs is caught.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Runs a command that must not hang, and returns all it said.
pub(crate) fn finished_in_time(mut command: Command) -> Output {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A full pipe would look like a process that hangs.
    let mut pipes = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
    let stdout = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = pipes.0.read_to_end(&mut bytes);
        bytes
    });
    let stderr = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        _ = pipes.1.read_to_end(&mut bytes);
        bytes
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > LIMIT + minutes_of_cases() {
            process.kill().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Waits until something is so. The limit only ends a wait for what never comes.
pub(crate) fn wait_until(what_is_wrong: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what_is_wrong}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn minutes_of_cases() -> Duration {
    Duration::from_secs(number("RUNLORE_TEST_SECONDS").unwrap_or(0))
}

/// A number in the environment.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text}")))
}

/// A line of the table that `tests/reliability` prints: what was tried, and how much of it.
pub(crate) fn tried(what: &str, how_much: impl std::fmt::Display) {
    println!("tried: {what} | {how_much}");
}

/// How `unshare` is told to make a place where a file system can be mounted that nobody else sees; none where it may not, which in CI
/// is a failure.
pub(crate) fn may_mount(what: &str) -> Option<&'static str> {
    let may = |flags: &&str| {
        let probe = tempfile::TempDir::new().unwrap();
        let mut mount = Command::new("unshare");
        mount.args([flags, "mount", "-t", "tmpfs", "tmpfs"]).arg(probe.path());
        mount.output().is_ok_and(|output| output.status.success())
    };
    let flags = ["-m", "-rm"].into_iter().find(may);
    if flags.is_none() {
        let why = "a file system of its own cannot be mounted here";
        skipped(what, why);
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}: {why}");
    }
    flags
}

/// Says why something was not tried.
pub(crate) fn skipped(what: &str, why: &str) {
    println!("tried: {what} | SKIPPED: {why}");
}

/// The cases of a test with random input: `RUNLORE_TEST_CASES` of them, or as many as fit into `RUNLORE_TEST_SECONDS`.
pub(crate) struct Cases {
    next: u64,
    end: u64,
    until: Option<Instant>,
}

impl Cases {
    pub(crate) fn new(default: u64) -> Self {
        let seconds = number("RUNLORE_TEST_SECONDS");
        let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let end = number("RUNLORE_TEST_CASES").or(until.map(|_| u64::MAX)).unwrap_or(default);
        Self { next: 0, end, until }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.next
    }
}

impl Iterator for &mut Cases {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.end || self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// Numbers that look random, the same for the same seed.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// By `RUNLORE_TEST_SEED`.
    pub(crate) fn new() -> Self {
        Self::with_seed(number("RUNLORE_TEST_SEED").unwrap_or(1))
    }

    pub(crate) fn with_seed(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Seeds that are near each other begin alike.
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}
