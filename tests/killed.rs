//! A process that dies without a word: what its tasks did is not lost.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use runlore::record::{Status, TaskObject, WorkflowObject};
use runlore::store::jsonl;
use runlore::{carry, telemetry_task};

use crate::support::{self, bare_child, child, is_child, tried};

#[telemetry_task]
fn returns(thread: usize, number: u64) -> u64 {
    number
}

#[telemetry_task]
fn fails() -> Result<(), String> {
    Err("as it should".to_owned())
}

#[telemetry_task]
fn outer(thread: usize) {
    let _open = runlore::task("open").used("thread", thread).start();
    // The test's own ledger: one byte for every call that has returned, written by the kernel at once.
    let folder = std::env::var("LEDGER").unwrap();
    let mut ledger = File::create(Path::new(&folder).join(thread.to_string())).unwrap();
    // What the recorder itself says it dropped, noted before the return is: a drop that is not told is a loss.
    let mut dropped = File::create(Path::new(&folder).join(format!("dropped-{thread}"))).unwrap();
    let mut known = 0;
    for number in 0.. {
        returns(thread, number);
        let now = runlore::stats().dropped;
        if now != known {
            known = now;
            dropped.write_all(format!("{now}\n").as_bytes()).unwrap();
        }
        ledger.write_all(b".").unwrap();
    }
}

fn record_until_killed() {
    let run = runlore::workflow("killed").store(std::env::var("FOLDER").unwrap().as_str());
    std::mem::forget(run.start().unwrap());
    assert!(fails().is_err());
    let how = std::env::var("HOW").unwrap();
    let begin = Arc::new(Barrier::new(5));
    let thread = |thread| {
        let begin = Arc::clone(&begin);
        std::thread::spawn(carry(move || {
            begin.wait();
            outer(thread);
        }))
    };
    let threads: Vec<_> = (0..4).map(thread).collect();
    if how == "RLIMIT_AS" {
        allow_no_more_memory();
    }
    begin.wait();
    let after: u64 = std::env::var("AFTER").unwrap().parse().unwrap();
    std::thread::sleep(Duration::from_millis(after));
    match how.as_str() {
        "exit" => std::process::exit(0),
        "abort" => std::process::abort(),
        "_exit" => end_at_once(),
        "exec" => {
            let error =
                std::os::unix::process::CommandExt::exec(&mut std::process::Command::new("true"));
            panic!("{error}");
        }
        _ => {
            println!("ready");
            for thread in threads {
                thread.join().unwrap();
            }
        }
    }
}

#[allow(unsafe_code)]
fn end_at_once() -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

/// From here on the system refuses the process new mappings, such as those of queues.
#[allow(unsafe_code)]
fn allow_no_more_memory() {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().next().unwrap().parse().unwrap();
    let most = pages * 4096 + (256 << 10);
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit is a valid place to read from.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

const KILLED: &str = "killed::every_task_that_had_returned_is_recovered";

/// How often each way to die is tried: a few times here, as the reliability command wants there.
fn rounds() -> usize {
    support::number("RUNLORE_TEST_ROUNDS").map_or(1, |rounds| rounds as usize)
}

/// How a process dies.
#[derive(Debug, Clone, Copy)]
struct Death {
    how: &'static str,
    /// After so many milliseconds.
    after: u64,
    /// Whether its queues are so small that they overflow.
    is_cramped: bool,
    /// What it does when a queue is full.
    when_full: &'static str,
    /// Without telemetry there are a hundred times more tasks, with it more of each.
    is_bare: bool,
}

impl Death {
    /// The ways to die, each so many times, never twice at the same moment.
    fn all(ways: &'static [&'static str], rounds: usize) -> impl Iterator<Item = Self> {
        (0..rounds).flat_map(move |round| {
            ways.iter().enumerate().map(move |(at, how)| Self {
                how,
                after: 1 + (round as u64 * 37 + at as u64 * 23) % 120,
                is_cramped: (round + at).is_multiple_of(2),
                when_full: "spill",
                is_bare: round % 4 < 2,
            })
        })
    }

    fn command(self) -> Command {
        let mut command = if self.is_bare { bare_child(KILLED) } else { child(KILLED) };
        command.env("HOW", self.how).env("AFTER", self.after.to_string());
        command.env("RUNLORE_RECORDER__WHEN_FULL", self.when_full);
        if self.is_cramped {
            command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
        }
        command
    }
}

#[cfg(unix)]
#[test]
fn every_task_that_had_returned_is_recovered() {
    if is_child(KILLED) {
        record_until_killed();
        return;
    }
    die_often(&["kill -9", "abort", "_exit", "exec"], Place::Files);
}

#[cfg(unix)]
#[test]
fn what_other_threads_did_until_the_end_is_recovered() {
    die_often(&["exit", "SIGTERM"], Place::Files);
}

#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn of_a_run_in_a_database_too() {
    die_often(&["kill -9", "abort", "_exit", "exec", "exit", "SIGTERM"], Place::Database);
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_without_memory_for_queues_loses_nothing_uncounted() {
    die_often(&["RLIMIT_AS"], Place::Files);
    #[cfg(feature = "sqlite")]
    die_often(&["RLIMIT_AS"], Place::Database);
}

/// Lets processes die in each of these ways.
fn die_often(ways: &'static [&'static str], place: Place) {
    let mut dropped = 0;
    let mut deaths = 0;
    for death in Death::all(ways, rounds()) {
        dropped += die_and_recover(death, place);
        deaths += 1;
    }
    let what = format!("{} while 4 threads record, into {place:?}", ways.join(", "));
    tried(&what, format!("{deaths} deaths, {dropped} tasks dropped and counted before them"));
}

#[cfg(unix)]
#[test]
fn what_was_dropped_is_counted_in_the_run_that_is_recovered() {
    let mut dropped = 0;
    for round in 0..3 {
        let death = Death {
            how: "kill -9",
            after: 40 * (round + 1),
            is_cramped: true,
            when_full: "drop",
            is_bare: true,
        };
        dropped += die_and_recover(death, Place::Files);
    }
    assert!(dropped > 0);
}

/// Where a process that dies records to.
#[derive(Debug, Clone, Copy)]
enum Place {
    Files,
    #[cfg(feature = "sqlite")]
    Database,
}

/// What is there, joined and as it was written.
#[derive(Default)]
struct Found {
    tasks: Vec<TaskObject>,
    workflows: Vec<WorkflowObject>,
    written: Vec<String>,
}

impl Place {
    fn store(self, folder: &Path) -> String {
        match self {
            Self::Files => folder.display().to_string(),
            #[cfg(feature = "sqlite")]
            Self::Database => format!("sqlite://{}/x.db", folder.display()),
        }
    }

    fn found(self, folder: &Path) -> Found {
        match self {
            Self::Files => {
                let mut written = Vec::new();
                let loaded = jsonl::load_with(folder, |record| {
                    // One that was open when its run ended is there as such, and once more when it has ended.
                    let ended = record.as_task().filter(|task| task.is_finished());
                    written.extend(ended.map(|task| task.task_id.clone()));
                    Some(record)
                });
                let loaded = loaded.unwrap();
                assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
                Found { tasks: loaded.tasks, workflows: loaded.workflows, written }
            }
            #[cfg(feature = "sqlite")]
            Self::Database => {
                use runlore::record::Record;

                let source =
                    runlore::store::sqlite::SqliteSource::open(folder.join("x.db")).unwrap();
                let mut found = Found::default();
                for record in source.records() {
                    match record.unwrap() {
                        Record::Task(task) => {
                            found.written.push(task.task_id.clone());
                            found.tasks.push(*task);
                        }
                        Record::Workflow(workflow) => found.workflows.push(*workflow),
                        Record::Other(other) => panic!("{other:?}"),
                    }
                }
                found
            }
        }
    }
}

/// Lets a process die; returns how many tasks it had said it dropped.
fn die_and_recover(death: Death, place: Place) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let ledger = tempfile::tempdir().unwrap();
    let mut process = death
        .command()
        .env("FOLDER", place.store(folder.path()))
        .env("LEDGER", ledger.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if matches!(death.how, "kill -9" | "SIGTERM" | "RLIMIT_AS") {
        let has_begun = || fs::read_dir(ledger.path()).unwrap().next().is_some();
        while !has_begun() && process.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(death.after));
        end(&mut process, death.how);
    }
    process.wait().unwrap();

    let returned: Vec<u64> = (0..4)
        .map(|thread| {
            fs::metadata(ledger.path().join(format!("{thread}"))).map_or(0, |file| file.len())
        })
        .collect();
    let recovered = runlore::recover(folder.path()).unwrap();
    let dropped =
        (0..4).map(|thread| last_number(&ledger.path().join(format!("dropped-{thread}"))));
    let dropped = dropped.max().unwrap_or(0);
    let context =
        format!("{place:?}: {death:?}; returned {returned:?}; dropped {dropped}; {recovered:?}");
    if death.when_full == "spill" && death.how != "RLIMIT_AS" {
        assert_eq!(dropped, 0, "{context}");
    }
    let loaded = place.found(folder.path());

    let mut seen: HashMap<u64, HashSet<u64>> = HashMap::new();
    let returns = |task: &&TaskObject| task.name() == "returns";
    for task in loaded.tasks.iter().filter(returns).filter(|task| task.is_finished()) {
        assert!(seen.entry(number(task, "thread")).or_default().insert(number(task, "number")));
    }
    let mut lost = 0;
    for (thread, count) in returned.iter().enumerate() {
        let seen = seen.remove(&(thread as u64)).unwrap_or_default();
        let missing: Vec<u64> = (0..*count).filter(|number| !seen.contains(number)).collect();
        lost += missing.len() as u64;
        let ends = (missing.first(), missing.last());
        assert!(
            lost <= dropped,
            "{context}: thread {thread} lost {} in {ends:?}, and they were not dropped",
            missing.len()
        );
    }
    let open: Vec<&TaskObject> =
        loaded.tasks.iter().filter(|task| matches!(task.name(), "outer" | "open")).collect();
    let begun = returned.iter().filter(|count| **count > 0).count();
    if dropped == 0 {
        assert!(open.len() >= 2 * begun, "{context}: {} open", open.len());
        let ids: HashSet<&str> = loaded.tasks.iter().map(|task| task.task_id.as_str()).collect();
        for task in &loaded.tasks {
            if let Some(parent) = &task.parent_task_id {
                assert!(ids.contains(parent.as_str()), "{context}: {} has no parent", task.name());
            }
        }
    }
    assert!(open.iter().all(|task| task.status == Some(Status::Running)), "{context}");

    assert_eq!(loaded.workflows.len(), 1, "{context}");
    let workflow = &loaded.workflows[0];
    let expected = match death.how {
        "exit" => Status::Finished,
        "SIGTERM" => Status::Error,
        _ => Status::Unknown,
    };
    assert_eq!(workflow.status, Some(expected), "{context}");
    let totals = workflow.totals.as_ref().unwrap_or_else(|| panic!("{context}: no totals"));
    let total = |name: &str| totals[name].as_u64().unwrap();
    let count = |status| loaded.tasks.iter().filter(|task| task.status == Some(status)).count();
    assert_eq!(total("tasks"), loaded.tasks.len() as u64, "{context}: {totals:?}");
    assert_eq!(total("finished"), count(Status::Finished) as u64, "{context}: {totals:?}");
    assert_eq!(total("running"), count(Status::Running) as u64, "{context}: {totals:?}");
    assert_eq!((total("errors"), total("failed_roots")), (1, 1), "{context}: {totals:?}");
    // A thread may have dropped one more before it could note that.
    assert!((dropped..=dropped + 4).contains(&total("dropped")), "{context}: {totals:?}");

    // Not only joined, but written once.
    let mut written = HashSet::new();
    for id in &loaded.written {
        assert!(written.insert(id), "{context}: {id} twice");
    }
    assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|f| f.path()).collect();
    assert_eq!(files.len(), 1, "{context}: {files:?}");
    dropped
}

/// Ends a process by a signal.
#[allow(unsafe_code)]
fn end(process: &mut std::process::Child, how: &str) {
    if how == "SIGTERM" {
        // SAFETY: a signal to a child that nobody has waited for yet.
        unsafe { libc::kill(process.id() as i32, libc::SIGTERM) };
    } else {
        process.kill().unwrap();
    }
}

/// The number in the last whole line of a file.
fn last_number(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().next_back().map_or(0, |line| line.parse().unwrap())
}

fn number(task: &TaskObject, name: &str) -> u64 {
    task.used.as_ref().unwrap()[name].as_u64().unwrap()
}

const ALIVE: &str = "killed::a_process_that_is_alive_is_left_alone";

#[cfg(unix)]
#[test]
fn a_process_that_is_alive_is_left_alone() {
    if is_child(ALIVE) {
        record_until_killed();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process = child(ALIVE)
        .env("FOLDER", folder.path())
        .env("LEDGER", folder.path())
        .env("HOW", "kill -9")
        .env("AFTER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
    until_ready(&mut output);
    for _ in 0..5 {
        assert_eq!(runlore::recover(folder.path()).unwrap(), runlore::Recovered::default());
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(runlore::recover(folder.path()).unwrap().processes, 1);
}

/// Reads what a process says until it says that it is ready.
#[cfg(unix)]
fn until_ready(output: &mut impl std::io::BufRead) {
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0);
    }
}

#[cfg(target_os = "linux")]
const UNLOCKED: &str = "killed::a_process_that_lost_its_lock_is_left_alone_while_it_lives";

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_lost_its_lock_is_left_alone_while_it_lives() {
    if is_child(UNLOCKED) {
        let folder = std::env::var("FOLDER").unwrap();
        let run = runlore::workflow("unlocked").store(folder.as_str()).start().unwrap();
        returns(0, 0);
        // Whoever closes any descriptor of a file gives up all record locks that the process has on it.
        let lock = crate::dead_process::session(Path::new(&folder)).join("lock");
        drop(File::open(lock).unwrap());
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        returns(0, 1);
        std::mem::forget(run);
        end_at_once();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process = child(UNLOCKED)
        .env("FOLDER", folder.path())
        .env("RUNLORE_RECORDER__FLUSH_MS", "1h")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(process.stdout.take().unwrap());
    until_ready(&mut output);
    let told = crate::hostile_recovery::recovery_of(folder.path());
    let said = String::from_utf8(told.stderr).unwrap();
    let session = crate::dead_process::session(folder.path());
    let expected = format!(
        "runlore: {} is left alone: process {} is alive, although something in it gave up its lock\n",
        session.display(),
        process.id()
    );
    assert!(said.contains(&expected), "{said}");
    // Readers say nothing of it, and leave it alone too.
    assert_eq!(jsonl::load(folder.path()).unwrap().tasks.len(), 0);
    assert!(session.exists());

    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    process.wait().unwrap();
    assert_eq!(runlore::recover(folder.path()).unwrap().tasks, 2);
}
