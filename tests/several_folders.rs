//! A process that records into several folders: each has a session of its own, and gets back what is its own.

#![cfg(unix)]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use runlore::record::{Record, Status};
use runlore::store::{MemoryStore, jsonl};
use runlore::{FutureExt as _, WorkflowRun, carry, task, telemetry_task};
use tempfile::TempDir;

use crate::support::{bare_child, expect_success, is_child};

#[telemetry_task]
fn step(n: usize) -> usize {
    n
}

#[telemetry_task]
async fn waits(n: usize) -> usize {
    tokio::task::yield_now().await;
    step(n)
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(std::env::var("FOLDER").unwrap()).join(name)
}

fn start(name: &str) -> WorkflowRun {
    // All functions in these tests would be listed, hundreds of times.
    runlore::workflow(name).without_catalogue().store(folder(name)).start().unwrap()
}

/// A child of a test that writes nothing to its files by itself.
fn recorder(test: &str, folder: &Path) -> std::process::Command {
    let mut command = bare_child(test);
    command.env("FOLDER", folder).env("RUNLORE_RECORDER__FLUSH_MS", "1h");
    command
}

#[allow(unsafe_code)]
fn kill_itself() -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("nobody survives it")
}

/// The tasks in a folder, each by its workflow's name and number; each is there once.
fn tasks(folder: &Path) -> Vec<(String, Option<u64>, Option<Status>)> {
    let names: HashMap<String, Option<String>> = jsonl::load(folder)
        .unwrap()
        .workflows
        .into_iter()
        .map(|workflow| (workflow.workflow_id, workflow.name))
        .collect();
    let mut seen = HashSet::new();
    let mut tasks = Vec::new();
    for record in jsonl::read(folder).unwrap() {
        if let Record::Task(task) = record.unwrap() {
            assert!(seen.insert(task.task_id.clone()), "{} twice", task.task_id);
            let workflow = names[task.workflow_id.as_ref().unwrap()].clone().unwrap();
            let number = task.used.as_ref().and_then(|used| used.get("n")?.as_u64());
            tasks.push((workflow, number, task.status));
        }
    }
    tasks
}

fn sessions(folder: &Path) -> usize {
    fs::read_dir(folder.join(".rings")).map_or(0, Iterator::count)
}

const KILLED: &str = "several_folders::each_folder_of_a_killed_process_gets_its_own_tasks";

#[test]
fn each_folder_of_a_killed_process_gets_its_own_tasks() {
    const TASKS: usize = 100;
    if is_child(KILLED) {
        let (one, other) = (start("one"), start("other"));
        let memory = runlore::workflow("memory").store(MemoryStore::new()).start().unwrap();
        let contexts = [&one, &other, &memory].map(WorkflowRun::context);
        // A task that is open on this thread in each, while tasks of all of them come and go on several threads.
        for context in contexts {
            context.run(|| std::mem::forget(task("open").start()));
        }
        let threads: Vec<_> = (0..2)
            .map(|_| {
                std::thread::spawn(move || {
                    for n in 0..TASKS {
                        let context = contexts[n % 3];
                        context.run(|| step(n));
                        // Begun inside one workflow, with another inside it.
                        context.run(|| task("outer").run(|| contexts[(n + 1) % 3].run(|| step(n))));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Tasks that end on other threads than they began on.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.unwrap().block_on(async {
            let each = (0..TASKS).map(|n| tokio::spawn(waits(n).in_context(contexts[n % 3])));
            for spawned in each.collect::<Vec<_>>() {
                spawned.await.unwrap();
            }
        });
        assert_eq!(runlore::stats().dropped, 0);
        kill_itself();
    }
    let all = TempDir::new().unwrap();
    let output = recorder(KILLED, all.path()).output().unwrap();
    assert!(!output.status.success());
    let at = |name: &str| all.path().join(name);
    assert_eq!((sessions(&at("one")), sessions(&at("other"))), (1, 1));
    for (index, name) in ["one", "other"].into_iter().enumerate() {
        let mine = |n: &usize| n % 3 == index;
        let simple = (0..TASKS).filter(mine).count();
        let inner = (0..TASKS).filter(|n| (n + 1) % 3 == index).count();
        // From two threads: plain, outer, and inner ones. From the runtime: two each.
        let expected = 2 * (2 * simple + inner) + 2 * simple;
        let recovered = runlore::recover(at(name)).unwrap();
        let found = (recovered.processes, recovered.tasks as usize, recovered.open);
        assert_eq!(found, (1, expected, 1), "{name}");
        let tasks = tasks(&at(name));
        assert_eq!(tasks.len(), expected + 1, "{name}");
        assert!(tasks.iter().all(|(workflow, ..)| workflow == name), "{tasks:?}");
        let open = tasks.iter().filter(|(.., status)| *status == Some(Status::Running));
        assert_eq!(open.count(), 1, "{name}");
        assert_eq!(sessions(&at(name)), 0, "{name}");
    }
}

const MANY: &str = "several_folders::many_folders_one_after_another_cost_no_more_than_a_few";

#[test]
fn many_folders_one_after_another_cost_no_more_than_a_few() {
    const FOLDERS: usize = 200;
    if is_child(MANY) {
        let (to, from) = std::sync::mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let (done, is_done) = std::sync::mpsc::channel();
        // A thread that outlives all workflows and works for each.
        let worker = std::thread::spawn(move || {
            for work in from {
                work();
                done.send(()).unwrap();
            }
        });
        let first = start("first");
        for n in 0..FOLDERS {
            let run = start(&format!("folder-{n}"));
            run.context().run(|| {
                step(n);
                to.send(Box::new(carry(move || _ = step(n)))).unwrap();
                is_done.recv().unwrap();
            });
            assert_eq!(run.finish().unwrap().tasks, 2);
            // The first one goes on meanwhile.
            first.context().run(|| step(n));
        }
        drop(to);
        worker.join().unwrap();
        assert_eq!(runlore::stats().dropped, 0);
        println!("folders with a session: {}", with_a_session(&folder("")));
        #[cfg(target_os = "linux")]
        {
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            println!("rings: {}", maps.matches("/ring-").count());
            println!("files: {}", fs::read_dir("/proc/self/fd").unwrap().count());
        }
        assert_eq!(first.finish().unwrap().tasks as usize, FOLDERS);
        return;
    }
    let all = TempDir::new().unwrap();
    let output = recorder(MANY, all.path())
        .env("RUNLORE_RECORDER__BUDGET_BYTES", "4MiB")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    expect_success(&output);
    let told = String::from_utf8(output.stdout).unwrap();
    let number = |name: &str| -> Option<usize> {
        let line = told.lines().find_map(|line| Some(line.split_once(name)?.1))?;
        Some(line.parse().unwrap())
    };
    assert!(number("folders with a session: ").unwrap() <= 7, "{told}");
    assert!(number("rings: ").is_none_or(|rings| rings <= 20), "{told}");
    assert!(number("files: ").is_none_or(|files| files <= 40), "{told}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("runlore:"));
    assert_eq!(with_a_session(all.path()), 0);
}

fn with_a_session(all: &Path) -> usize {
    fs::read_dir(all).unwrap().filter(|entry| sessions(&entry.as_ref().unwrap().path()) > 0).count()
}

const FORKED: &str = "several_folders::a_forked_child_records_in_none_of_its_parents_folders";

#[test]
fn a_forked_child_records_in_none_of_its_parents_folders() {
    if is_child(FORKED) {
        let (one, other) = (start("one"), start("other"));
        let contexts = [one.context(), other.context()];
        contexts.into_iter().for_each(|context| _ = context.run(|| step(0)));
        let child = fork();
        contexts.into_iter().for_each(|context| _ = context.run(|| step(1)));
        if child == 0 {
            kill_itself();
        }
        wait_for(child);
        kill_itself();
    }
    let all = TempDir::new().unwrap();
    assert!(!recorder(FORKED, all.path()).output().unwrap().status.success());
    for name in ["one", "other"] {
        let folder = all.path().join(name);
        assert_eq!(sessions(&folder), 1);
        let recovered = runlore::recover(&folder).unwrap();
        assert_eq!((recovered.processes, recovered.tasks), (1, 2), "{name}");
        assert!(tasks(&folder).iter().all(|(workflow, ..)| workflow == name));
    }
}

#[allow(unsafe_code)]
fn fork() -> i32 {
    // SAFETY: the child goes on with what a forked child may do, and dies.
    unsafe { libc::fork() }
}

#[allow(unsafe_code)]
fn wait_for(child: i32) {
    // SAFETY: the child is ours, and nobody asks for its status.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

const OFTEN: &str = "several_folders::the_log_of_many_workflows_in_one_folder_stays_short";

#[test]
fn the_log_of_many_workflows_in_one_folder_stays_short() {
    const THREADS: usize = 4;
    const RUNS: usize = 300;
    let workflows = |log: &Path| fs::read_to_string(log).unwrap().matches("{\"run\":{").count();
    if is_child(OFTEN) {
        let store = folder("all");
        let server = runlore::workflow("server").store(&*store).start().unwrap();
        server.context().run(|| std::mem::forget(task("open").start()));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for n in 0..RUNS {
                        let request = runlore::workflow("request").without_catalogue();
                        let request = request.store(&*store).start().unwrap();
                        request.context().run(|| step(n));
                        server.context().run(|| step(n));
                        assert_eq!(request.finish().unwrap().tasks, 1);
                    }
                });
            }
        });
        let last = runlore::workflow("last").store(&*store).start().unwrap();
        last.context().run(|| step(RUNS));
        std::mem::forget(last);
        kill_itself();
    }
    let all = TempDir::new().unwrap();
    let output = recorder(OFTEN, all.path()).output().unwrap();
    assert!(!output.status.success());
    let store = all.path().join("all");
    let session = crate::dead_process::session(&store);
    let told = workflows(&session.join("log.jsonl"));
    assert!(told < THREADS * RUNS / 2, "{told}: {}", String::from_utf8_lossy(&output.stderr));

    let recovered = runlore::recover(&store).unwrap();
    assert_eq!(recovered.processes, 1);
    let tasks = tasks(&store);
    let of = |name: &str| tasks.iter().filter(|(workflow, ..)| workflow == name).count();
    assert_eq!(of("request"), THREADS * RUNS);
    assert_eq!(of("server"), THREADS * RUNS + 1);
    assert_eq!(of("last"), 1);
}
