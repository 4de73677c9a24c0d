//! Servers that are away: from the start, from the middle on, for a while. Each record is there once when they are back.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Stdio};

use runlore::telemetry_task;
use tempfile::TempDir;

use crate::mongo_server::{Server, Want, queues, recording, stored, until_stored};
use crate::support::{finished_in_time, is_child, number, tried};

const IN_PARTS: &str = "mongodb_away::records_in_three_parts";
const TOO_MUCH: &str = "mongodb_away::records_more_than_there_is_room_for";

/// Tasks of a run, in three parts of pairs.
fn tasks() -> u64 {
    number("RUNLORE_TEST_TASKS").map_or(1200, |tasks| tasks.clamp(1200, 6000) / 6 * 6)
}

#[telemetry_task]
fn outer(n: u64) -> u64 {
    inner(n) + 1
}

#[telemetry_task]
fn inner(n: u64) -> u64 {
    n
}

#[telemetry_task(telemetry = "none")]
fn small(n: u64) -> u64 {
    n
}

/// What a process does while its server dies and comes back: it goes on when it is told to.
#[test]
fn records_in_three_parts() {
    if !is_child(IN_PARTS) {
        return;
    }
    let run = runlore::workflow("train").store(std::env::var("STORE").unwrap()).start().unwrap();
    for _ in 0..3 {
        (0..tasks() / 6).for_each(|n| assert_eq!(outer(n), n + 1));
        println!("part");
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
    if std::env::var("IS_BACK").is_ok() {
        until_stored();
    }
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (tasks(), 0));
    println!("{} wait", totals.spooled);
    std::process::exit(7);
}

/// A process that records in parts.
struct Parts {
    child: Child,
    folder: TempDir,
    said: BufReader<std::process::ChildStdout>,
}

impl Parts {
    fn start(store: &str, is_back: bool) -> Self {
        let (mut command, folder) = recording(IN_PARTS, store);
        if is_back {
            command.env("IS_BACK", "yes");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, folder, said }
    }

    fn until(&mut self, word: &str) -> String {
        let mut line = String::new();
        while self.said.read_line(&mut line).unwrap() > 0 {
            if line.trim_end().ends_with(word) {
                return line;
            }
            line.clear();
        }
        panic!("it ended before it said {word}");
    }

    /// The part that is under way ends, and the next begins.
    fn next(&mut self) {
        self.until("part");
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    /// Its own result, which is the same whatever becomes of the records; and how many of these wait.
    fn end(mut self) -> (TempDir, u64) {
        let waiting = self.until("wait");
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        let waiting = waiting.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
        (self.folder, waiting)
    }
}

fn assert_each_once(uri: &str) {
    let id = |task: &mongodb::bson::Document| task.get_str("task_id").unwrap().to_owned();
    let ids: Vec<_> = stored(uri, "tasks").iter().map(id).collect();
    let different: HashSet<_> = ids.iter().collect();
    assert_eq!((ids.len() as u64, different.len() as u64), (tasks(), tasks()));
    let workflows = stored(uri, "workflows");
    assert_eq!(workflows.len(), 1);
    // The process exits with 7, which fails the run that ended last: its final record is written once more.
    assert_eq!(workflows[0].get_str("status").unwrap(), "ERROR");
}

#[test]
fn from_the_start() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    let uri = server.database();
    server.kill();
    let mut parts = Parts::start(&uri, false);
    (0..3).for_each(|_| parts.next());
    let (folder, waiting) = parts.end();
    assert_eq!(waiting, tasks() + 2);
    let spool = queues(&folder).join(".spool");
    runlore::replay(&spool, &uri, |_| ()).expect_err("the server is away");
    server.restart(&[Want::Durability]);
    assert_eq!(runlore::replay(&spool, &uri, |_| ()).unwrap().records, tasks() + 3);
    assert_each_once(&uri);
    assert!(!spool.exists());
    tried(
        "a MongoDB server that is away from the start",
        format!("{} tasks, replayed by hand", tasks()),
    );
}

#[test]
fn from_the_middle_on() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    let uri = server.database();
    let mut parts = Parts::start(&uri, false);
    parts.next();
    server.kill();
    (0..2).for_each(|_| parts.next());
    let (folder, waiting) = parts.end();
    assert!(waiting >= tasks() / 3 * 2, "{waiting}");
    server.restart(&[Want::Durability]);
    runlore::replay(queues(&folder), &uri, |_| ()).unwrap();
    assert_each_once(&uri);
    tried(
        "a MongoDB server killed in the middle of the run",
        format!("{} tasks, replayed by hand", tasks()),
    );
}

#[test]
fn for_a_while() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    let uri = server.database();
    let mut parts = Parts::start(&uri, true);
    parts.next();
    server.kill();
    parts.next();
    server.restart(&[Want::Durability]);
    parts.next();
    let (folder, waiting) = parts.end();
    // On a busy machine, the end of the run may be too short for its last record.
    assert!(waiting <= 1, "{waiting}");
    assert_eq!(stored(&uri, "tasks").len() as u64, tasks());
    let left = runlore::replay(queues(&folder), &uri, |_| ()).unwrap();
    assert_eq!(left.records, waiting);
    assert_each_once(&uri);
    tried("a MongoDB server killed and back", format!("{} tasks, by itself", tasks()));
}

/// What a process does that has little room for what its server does not take.
#[test]
fn records_more_than_there_is_room_for() {
    if !is_child(TOO_MUCH) {
        return;
    }
    let run = runlore::workflow("train").store(std::env::var("STORE").unwrap()).start().unwrap();
    for n in 0..tasks() {
        assert_eq!(small(n), n);
        // A batch finds room on disk as a whole, or none.
        if n % 100 == 99 {
            _ = runlore::flush();
        }
    }
    // It says how much was not stored, or nothing where all is counted already.
    _ = run.finish();
    println!("{} are dropped", runlore::stats().dropped);
    std::process::exit(7);
}

#[test]
fn with_a_spool_that_is_full() {
    let Some(mut server) = Server::start(&[Want::Durability]) else { return };
    for policy in ["block", "drop"] {
        let uri = server.database();
        server.kill();
        let (mut command, folder) = recording(TOO_MUCH, &uri);
        command.env("RUNLORE_RECORDER__SPOOL_BYTES", "200KiB");
        command.env("RUNLORE_RECORDER__BACKLOG_BYTES", "200KiB");
        command.env("RUNLORE_RECORDER__WHEN_FULL", policy);
        let output = finished_in_time(command);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(7), "{policy}: {said}");
        let dropped = said.lines().find_map(|line| line.strip_suffix(" are dropped")).unwrap();
        let dropped: u64 = dropped.split_whitespace().last().unwrap().parse().unwrap();
        assert!(dropped > 0, "{policy}");
        server.restart(&[Want::Durability]);
        let replayed = runlore::replay(queues(&folder), &uri, |_| ()).unwrap();
        // The final record that the exit code adds may find the spool full, after the program has said what it dropped.
        let known = replayed.records + dropped;
        assert!((tasks() + 2..=tasks() + 3).contains(&known), "{policy}: {known}");
        let stored = stored(&uri, "tasks");
        let ids: HashSet<_> = stored.iter().map(|task| task.get_str("task_id").unwrap()).collect();
        assert!(!ids.is_empty() && ids.len() == stored.len(), "{policy}");
        // Of a workflow there are two records.
        assert!((replayed.records - ids.len() as u64) <= 2, "{policy}");
    }
    tried(
        "a full spool for a MongoDB server that is away",
        format!("{} tasks, both policies", tasks()),
    );
}
