//! However the process goes on or ends: nothing hangs, nothing is broken, and the records say what happened.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use runlore::record::{Status, TaskObject};
use runlore::store::jsonl::{self, Loaded};
use runlore::{carry, task, telemetry_task};

use crate::support::{child, finished_in_time, is_child, tried};

#[telemetry_task]
fn work(n: u32) -> u32 {
    n + 1
}

/// Runs a scenario below in a process of its own, with a folder for its records.
pub(crate) fn scenario(name: &str, folder: &Path) -> Command {
    let mut command = child("lifecycle::child_process");
    command.env("SCENARIO", name).env("FOLDER", folder);
    command
}

fn outcome(name: &str) -> (Output, Loaded) {
    let folder = tempfile::tempdir().unwrap();
    let output = finished_in_time(scenario(name, folder.path()));
    (output, jsonl::load(folder.path()).unwrap())
}

/// What the processes of these tests do.
#[test]
fn child_process() {
    if !is_child("lifecycle::child_process") {
        return;
    }
    let folder = std::env::var("FOLDER").unwrap();
    let start = || runlore::workflow("lifecycle").store(folder.as_str()).start().unwrap();
    match std::env::var("SCENARIO").unwrap().as_str() {
        "exit in a worker" => {
            std::mem::forget(start());
            std::thread::spawn(carry(|| {
                let _open = task("open").start();
                work(1);
                std::process::exit(5);
            }))
            .join()
            .unwrap();
        }
        "threads outlive main" => {
            std::mem::forget(start());
            let done = Arc::new(AtomicU32::new(0));
            for _ in 0..2 {
                let done = Arc::clone(&done);
                std::thread::spawn(carry(move || {
                    loop {
                        done.fetch_add(work(0), Ordering::Relaxed);
                    }
                }));
            }
            while done.load(Ordering::Relaxed) < 100 {
                std::thread::yield_now();
            }
            std::process::exit(0);
        }
        "thread-local destructors" => {
            struct OnExit(u32);
            impl Drop for OnExit {
                fn drop(&mut self) {
                    work(self.0);
                }
            }
            thread_local! {
                static FIRST: OnExit = const { OnExit(1) };
                static SECOND: OnExit = const { OnExit(2) };
            }
            let run = start();
            std::thread::spawn(carry(|| {
                FIRST.with(|_| ());
                work(0);
                SECOND.with(|_| ());
            }))
            .join()
            .unwrap();
            run.finish().unwrap();
        }
        "a runtime dropped early" => {
            #[telemetry_task(skip(polled))]
            async fn waits_for_ever(polled: std::sync::mpsc::Sender<()>) {
                polled.send(()).unwrap();
                std::future::pending::<()>().await;
            }
            let run = start();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let (sender, polled) = std::sync::mpsc::channel();
            for _ in 0..10 {
                runtime.spawn(runlore::FutureExt::in_current(waits_for_ever(sender.clone())));
            }
            polled.iter().take(10).for_each(drop);
            drop(runtime);
            run.finish().unwrap();
        }
        "waits for a signal" => {
            // A shell that starts the tests in the background has them ignore SIGINT.
            for signal in [libc::SIGINT, libc::SIGTERM] {
                set_handler(signal, libc::SIG_DFL);
            }
            wait_for_signal(start);
        }
        "tokio takes the signal" => {
            let run = start();
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut term =
                    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                        .unwrap();
                work(1);
                println!("ready");
                term.recv().await;
                work(2);
            });
            run.finish().unwrap();
            std::process::exit(9);
        }
        "tokio had the signal before" => {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut term =
                    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                        .unwrap();
                let run = start();
                work(1);
                println!("ready");
                term.recv().await;
                work(2);
                run.finish().unwrap();
            });
            std::process::exit(9);
        }
        "a handler before" => {
            handle_term();
            exit_after_the_handler(start());
        }
        "a handler after" => {
            let run = start();
            handle_term();
            exit_after_the_handler(run);
        }
        "a handler after that calls the one before" => {
            let run = start();
            let before = handle_term();
            BEFORE.store(before, Ordering::Relaxed);
            exit_after_the_handler(run);
        }
        "a handler that ends the process" => {
            // As `ctrlc` does: the handler wakes a thread, and that one decides.
            let _run = start();
            handle_term();
            std::thread::spawn(|| {
                wait_for_the_handler();
                std::process::exit(9);
            });
            work(1);
            work(2);
            println!("ready");
            loop {
                std::thread::park();
            }
        }
        "the signal is ignored" => {
            set_handler(libc::SIGTERM, libc::SIG_IGN);
            let run = start();
            work(1);
            raise_term();
            work(2);
            run.finish().unwrap();
            std::process::exit(9);
        }
        "forks" => fork_and_record(&start(), &folder),
        "forks many times" => fork_many_times(&start(), &folder),
        "forks while threads are busy" => fork_while_threads_are_busy(start(), &folder),
        other => panic!("no scenario {other}"),
    }
}

fn wait_for_signal(start: impl FnOnce() -> runlore::WorkflowRun) {
    let _run = start();
    work(1);
    let _open = task("open").start();
    println!("ready");
    std::thread::sleep(Duration::from_secs(60));
}

static HANDLED: AtomicBool = AtomicBool::new(false);
/// The handler that ours calls, too.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

#[allow(unsafe_code)]
extern "C" fn handle(signal: libc::c_int) {
    HANDLED.store(true, Ordering::Relaxed);
    let before = BEFORE.load(Ordering::Relaxed);
    if before > libc::SIG_IGN {
        // SAFETY: what sigaction returned as a handler is one, and none here asks for more than the number.
        let before: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(before) };
        before(signal);
    }
}

/// Installs a handler by plain `sigaction`; returns the one before.
fn handle_term() -> usize {
    set_handler(libc::SIGTERM, handle as *const () as usize)
}

#[allow(unsafe_code)]
fn set_handler(signal: libc::c_int, handler: usize) -> usize {
    // SAFETY: zeroed is a valid sigaction; the handler stores and calls what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        assert_eq!(libc::sigaction(signal, &raw const action, &raw mut before), 0);
        before.sa_sigaction
    }
}

#[allow(unsafe_code)]
fn raise_term() {
    // SAFETY: a signal to ourselves.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}

fn wait_for_the_handler() {
    while !HANDLED.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn exit_after_the_handler(run: runlore::WorkflowRun) {
    work(1);
    println!("ready");
    wait_for_the_handler();
    // Whoever else heard of the signal has had time to do something about it.
    std::thread::sleep(Duration::from_millis(50));
    work(2);
    run.finish().unwrap();
    std::process::exit(9);
}

#[allow(unsafe_code)]
fn fork() -> libc::pid_t {
    // SAFETY: the child does what children of these tests do: it records and ends.
    unsafe { libc::fork() }
}

#[allow(unsafe_code)]
fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    status
}

fn fork_and_record(_run: &runlore::WorkflowRun, store: &str) {
    let around = task("around").start();
    work(1);
    let pid = fork();
    if pid == 0 {
        work(2);
        let run = runlore::workflow("of the child").store(store).start().unwrap();
        task("in the child").run(|| work(3));
        // The guard is the parent's: dropping it here must not end its task.
        drop(around);
        work(5);
        run.finish().unwrap();
        std::process::exit(0);
    }
    assert_eq!(wait_for(pid), 0);
    work(4);
    around.finish();
}

fn fork_many_times(_run: &runlore::WorkflowRun, store: &str) {
    let stop = AtomicBool::new(false);
    let busy = carry(|| {
        while !stop.load(Ordering::Relaxed) {
            work(7);
            drop(vec![0_u8; 1000]);
        }
    });
    std::thread::scope(|scope| {
        scope.spawn(busy);
        for round in 0..20 {
            let pid = fork();
            if pid == 0 {
                work(100);
                let run = runlore::workflow("of a child")
                    .without_catalogue()
                    .store(store)
                    .start()
                    .unwrap();
                work(round);
                run.finish().unwrap();
                std::process::exit(0);
            }
            assert_eq!(wait_for(pid), 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

const CHILDREN: u32 = 200;
const BUSY: u32 = 4;
const OF_A_CHILD: u32 = 10;
/// The arguments of the parent's tasks begin here, a range for each thread.
const OF_A_THREAD: u32 = 100_000_000;

/// Leaves the machine to others for a moment, or there are too many records to read.
fn work_in_bursts(n: u32) {
    work(n);
    if n.is_multiple_of(20) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Four threads record all the time. One of them does so on ever new threads, which need queues.
fn fork_while_threads_are_busy(run: runlore::WorkflowRun, store: &str) {
    let stop = AtomicBool::new(false);
    let busy = |thread: u32| {
        let first = (thread + 1) * OF_A_THREAD;
        let next = (first..first + OF_A_THREAD).take_while(|_| !stop.load(Ordering::Relaxed));
        let count = match thread {
            0 => next.map(|n| std::thread::scope(|of| _ = of.spawn(carry(|| work(n))))).count(),
            _ => next.map(work_in_bursts).count(),
        };
        count as u64
    };
    let mut ledger = 0;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..BUSY).map(|n| scope.spawn(carry(move || busy(n)))).collect();
        let mut children = Vec::new();
        for child in 0..CHILDREN {
            let pid = fork();
            if pid == 0 {
                finish_child(child, store);
            }
            children.push(pid);
            if children.len() == 8 {
                children.drain(..).for_each(|pid| assert_eq!(wait_for(pid), 0));
            }
        }
        children.into_iter().for_each(|pid| assert_eq!(wait_for(pid), 0));
        stop.store(true, Ordering::Relaxed);
        ledger = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    });
    assert_eq!(run.finish().unwrap().tasks, ledger);
}

/// Every second child exits at once. The others record a workflow of their own.
#[allow(unsafe_code)]
fn finish_child(child: u32, store: &str) -> ! {
    // SAFETY: a plain system call. The alarm ends a child that hangs.
    unsafe { libc::alarm(60) };
    if child.is_multiple_of(2) {
        let run = runlore::workflow("of a child").without_catalogue().store(store).start().unwrap();
        (0..OF_A_CHILD).for_each(|n| _ = work(child * OF_A_CHILD + n));
        assert_eq!(run.finish().unwrap().tasks, u64::from(OF_A_CHILD));
    }
    std::process::exit(0);
}

/// The argument of `work`.
fn argument(task: &TaskObject) -> Option<u64> {
    task.used.as_ref()?["n"].as_u64()
}

fn names(loaded: &Loaded) -> Vec<&str> {
    let mut names: Vec<_> = loaded.tasks.iter().map(TaskObject::name).collect();
    names.sort_unstable();
    names
}

fn no_id_twice(folder: &Path) {
    let mut seen = HashSet::new();
    for record in jsonl::read(folder).unwrap() {
        if let runlore::record::Record::Task(task) = record.unwrap() {
            assert!(seen.insert(task.task_id.clone()), "{} twice", task.task_id);
        }
    }
}

#[test]
fn an_exit_inside_a_task_keeps_the_others_and_tells_what_was_open() {
    let (output, loaded) = outcome("exit in a worker");
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(names(&loaded), ["open", "work"]);
    let open = loaded.tasks.iter().find(|task| task.name() == "open").unwrap();
    assert_eq!(open.status, Some(Status::Running));
    assert_eq!(loaded.workflows[0].status, Some(Status::Error));
    assert_eq!(loaded.workflows[0].exit_code, Some(5));
}

#[test]
fn threads_that_outlive_main_tear_nothing() {
    let (output, loaded) = outcome("threads outlive main");
    assert!(output.status.success());
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert!(loaded.tasks.len() > 10);
}

#[test]
fn thread_local_destructors_may_record() {
    let (output, loaded) = outcome("thread-local destructors");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names(&loaded), ["work"; 3]);
}

#[test]
fn a_runtime_dropped_early_cancels_its_tasks() {
    let (output, loaded) = outcome("a runtime dropped early");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(loaded.tasks.len(), 10);
    assert!(loaded.tasks.iter().all(|task| task.status == Some(Status::Error)));
}

/// Starts a scenario that says when it is ready.
fn ready(name: &str, folder: &Path) -> Child {
    let mut process = scenario(name, folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "{name} came up");
    // The harness prints to a pipe that must stay open.
    std::mem::forget(lines);
    process
}

#[allow(unsafe_code)]
fn send(process: &Child, signal: i32) {
    // SAFETY: a process of ours.
    unsafe { libc::kill(process.id() as i32, signal) };
}

#[test]
fn a_signal_that_ends_the_process_is_told_and_still_ends_it() {
    use std::os::unix::process::ExitStatusExt as _;
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = ready("waits for a signal", folder.path());
        send(&process, signal);
        assert_eq!(process.wait().unwrap().signal(), Some(signal));
        let loaded = jsonl::load(folder.path()).unwrap();
        assert_eq!(names(&loaded), ["open", "work"]);
        let workflow = &loaded.workflows[0];
        assert_eq!(workflow.status, Some(Status::Error));
        let name = if signal == libc::SIGTERM { "SIGTERM" } else { "SIGINT" };
        assert_eq!(workflow.stderr.as_deref(), Some(&*format!("the process was ended by {name}")));
        assert!(!folder.path().join(".rings").exists(), "nothing is left to recover");
    }
}

#[test]
fn a_handler_of_the_program_still_works() {
    let scenarios = [
        "tokio takes the signal",
        "tokio had the signal before",
        "a handler before",
        "a handler after",
        "a handler after that calls the one before",
        "a handler that ends the process",
    ];
    for scenario in scenarios {
        let folder = tempfile::tempdir().unwrap();
        let mut process = ready(scenario, folder.path());
        send(&process, libc::SIGTERM);
        assert_eq!(process.wait().unwrap().code(), Some(9), "{scenario}");
        let loaded = jsonl::load(folder.path()).unwrap();
        assert_eq!(names(&loaded), ["work"; 2], "{scenario}");
        // The signal was the program's own affair; that it then exited with 9 is what failed the run.
        let workflow = &loaded.workflows[0];
        assert_eq!((workflow.status, workflow.exit_code), (Some(Status::Error), Some(9)));
        assert_eq!(workflow.ended_by, None, "{scenario}");
    }
    tried("other handlers of SIGTERM, installed before and after us", scenarios.len());
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let (output, loaded) = outcome("the signal is ignored");
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    assert_eq!(names(&loaded), ["work"; 2]);
}

#[test]
fn a_forked_child_records_nothing_before_a_workflow_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let output = finished_in_time(scenario("forks", folder.path()));
    assert!(output.status.success(), "{output:?}");
    no_id_twice(folder.path());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let pids: HashSet<_> = loaded.tasks.iter().map(|task| task.pid.unwrap()).collect();
    assert_eq!(pids.len(), 2, "{pids:?}");
    assert_eq!(names(&loaded), ["around", "in the child", "work", "work", "work", "work"]);
    let arguments: HashSet<_> = loaded.tasks.iter().filter_map(argument).collect();
    assert_eq!(arguments, HashSet::from([1, 3, 4, 5]), "work(2) is outside of a workflow");
    let own = loaded.workflows.iter().find(|run| run.name.as_deref() == Some("of the child"));
    let by_child: Vec<_> = loaded
        .tasks
        .iter()
        .filter(|task| task.workflow_id.as_ref() == own.map(|own| &own.workflow_id))
        .collect();
    assert_eq!(by_child.len(), 3);
    assert!(by_child.iter().all(|task| task.pid == own.and_then(|own| own.pid)));
    let around = loaded.tasks.iter().find(|task| task.name() == "around").unwrap();
    assert_eq!((around.status, around.ended_early), (Some(Status::Finished), None));
    let children =
        loaded.tasks.iter().filter(|task| task.parent_task_id.as_ref() == Some(&around.task_id));
    assert_eq!(children.count(), 2, "the child's tasks are not the parent's");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a file for each process");
}

#[test]
fn many_forks_while_threads_record_hang_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = finished_in_time(scenario("forks many times", folder.path()));
    assert!(output.status.success(), "{output:?}");
    no_id_twice(folder.path());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    let parent = loaded.workflows.iter().find(|run| run.name.as_deref() != Some("of a child"));
    let by_children: HashSet<u64> = loaded
        .tasks
        .iter()
        .filter(|task| task.pid != parent.unwrap().pid)
        .filter_map(argument)
        .collect();
    assert_eq!(by_children, (0..20).collect());
    tried("forks while threads record", "20 children");
}

#[test]
fn forks_while_threads_are_busy_hang_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = finished_in_time(scenario("forks while threads are busy", folder.path()));
    assert!(output.status.success(), "{output:?}");
    no_id_twice(folder.path());
    let loaded = jsonl::load(folder.path()).unwrap();
    assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    assert!(loaded.tasks.iter().all(|task| task.status == Some(Status::Finished)));
    let mut arguments: Vec<u64> = loaded.tasks.iter().filter_map(argument).collect();
    arguments.sort_unstable();
    let (by_children, by_parent) =
        arguments.split_at(arguments.partition_point(|n| *n < u64::from(OF_A_THREAD)));
    let expected = (0..CHILDREN).filter(|child| child.is_multiple_of(2));
    let expected = expected.flat_map(|child| (0..OF_A_CHILD).map(move |n| child * OF_A_CHILD + n));
    assert_eq!(by_children, expected.map(u64::from).collect::<Vec<_>>());
    // Each thread counted from the beginning of its range, and nothing is missing or there twice.
    for thread in by_parent.chunk_by(|one, next| one + 1 == *next) {
        assert_eq!(thread[0] % u64::from(OF_A_THREAD), 0);
    }
    let pid_of = |name: &str| {
        let runs = loaded.workflows.iter().filter(move |run| run.name.as_deref() == Some(name));
        runs.map(|run| run.pid.unwrap()).collect::<HashSet<_>>()
    };
    let (parent, children) = (pid_of("lifecycle"), pid_of("of a child"));
    assert_eq!((parent.len(), children.len()), (1, CHILDREN as usize / 2));
    let is_by_parent = |task: &TaskObject| argument(task).unwrap() >= u64::from(OF_A_THREAD);
    for task in &loaded.tasks {
        assert_eq!(parent.contains(&task.pid.unwrap()), is_by_parent(task));
    }
    tried("forks while four threads are busy", "200 children");
}
