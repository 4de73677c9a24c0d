//! Servers that are up but slow, and networks that break: nothing is lost, and the run is there in the end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongodb::bson::Document;
use runlore::{Provenance, telemetry_task};
use tempfile::TempDir;

use crate::mongo_server::{Server, queues, recording, stored};
use crate::support::{expect_success, finished_in_time, is_child};

const RECORDS: &str = "mongodb_slow::records_two_batches";
const READS: &str = "mongodb_slow::reads_what_there_is";
const TASKS: u64 = 1200;

/// A way to a server that takes its time for every answer, or is broken.
struct Proxy {
    port: u16,
    delay_ms: Arc<AtomicU64>,
}

/// Nothing comes through.
const BROKEN: u64 = u64::MAX;

impl Proxy {
    fn start(host: &str, delay_ms: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let delay_ms = Arc::new(AtomicU64::new(delay_ms));
        let (host, delay) = (host.to_owned(), Arc::clone(&delay_ms));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&*host) else { continue };
                let (to_server, to_client) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                let (there, back) = (Arc::clone(&delay), Arc::clone(&delay));
                std::thread::spawn(move || pass(client, to_server, &there, false));
                std::thread::spawn(move || pass(server, to_client, &back, true));
            }
        });
        Self { port, delay_ms }
    }

    fn uri(&self, direct: &str) -> String {
        let (_, database) = direct.rsplit_once('/').unwrap();
        format!("mongodb://localhost:{}/{database}", self.port)
    }

    fn set(&self, delay_ms: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }
}

/// Copies bytes until one side ends, or the way is broken.
fn pass(mut from: TcpStream, mut to: TcpStream, delay_ms: &AtomicU64, is_answer: bool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        match delay_ms.load(Ordering::Relaxed) {
            BROKEN => break,
            delay if is_answer => std::thread::sleep(Duration::from_millis(delay)),
            _ => {}
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    _ = from.shutdown(std::net::Shutdown::Both);
    _ = to.shutdown(std::net::Shutdown::Both);
}

#[telemetry_task(telemetry = "none")]
fn small(n: u64) -> u64 {
    n
}

#[test]
fn records_two_batches() {
    if !is_child(RECORDS) {
        return;
    }
    let run = runlore::workflow("train").store(std::env::var("STORE").unwrap()).start().unwrap();
    (0..TASKS).for_each(|n| assert_eq!(small(n), n));
    let totals = run.finish().unwrap();
    assert_eq!((totals.tasks, totals.dropped), (TASKS, 0));
    println!("{} wait", totals.spooled);
}

#[test]
fn reads_what_there_is() {
    if !is_child(READS) {
        return;
    }
    let records = Provenance::open(std::env::var("STORE").unwrap()).unwrap();
    println!("{} tasks", records.tasks().count().unwrap());
}

/// Records through a proxy; what was said, and the folder that it was done in.
fn record(uri: &str, finish_wait: &str) -> (String, TempDir) {
    let (mut command, folder) = recording(RECORDS, uri);
    command.env("RUNLORE_RECORDER__FINISH_WAIT_MS", finish_wait);
    let output = finished_in_time(command);
    expect_success(&output);
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (String::from_utf8(said).unwrap(), folder)
}

fn statuses(uri: &str) -> Vec<String> {
    let status = |run: &Document| run.get_str("status").unwrap().to_owned();
    stored(uri, "workflows").iter().map(status).collect()
}

#[test]
fn the_end_of_a_run_waits_for_a_server_that_gets_on() {
    let Some(server) = Server::start(&[]) else { return };
    let direct = server.database();
    let proxy = Proxy::start(&server.host(), 1000);
    let (said, folder) = record(&proxy.uri(&direct), "10min");
    assert!(said.contains(" 0 wait"), "{said}");
    assert_eq!(stored(&direct, "tasks").len() as u64, TASKS);
    assert_eq!(statuses(&direct), ["FINISHED"]);
    assert!(!queues(&folder).join(".spool").exists());
}

#[test]
fn what_a_slow_server_was_not_waited_for_is_written_by_the_next_reader() {
    let Some(server) = Server::start(&[]) else { return };
    let direct = server.database();
    let proxy = Proxy::start(&server.host(), 2000);
    let (said, folder) = record(&proxy.uri(&direct), "1ms");
    assert!(!said.contains(" 0 wait"), "{said}");
    assert!(said.contains("for their store: the next run writes them"), "{said}");
    proxy.set(0);
    let (mut command, _) = recording(READS, &proxy.uri(&direct));
    command.current_dir(folder.path());
    let output = finished_in_time(command);
    expect_success(&output);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(&format!(" {TASKS} tasks")), "{told}");
    assert_eq!(statuses(&direct), ["FINISHED"]);
    assert!(!queues(&folder).join(".spool").exists());
}

#[test]
fn a_network_that_breaks_loses_nothing() {
    let Some(server) = Server::start(&[]) else { return };
    let direct = server.database();
    let proxy = Proxy::start(&server.host(), BROKEN);
    let (said, folder) = record(&proxy.uri(&direct), "10min");
    assert!(said.contains(&format!(" {} wait", TASKS + 2)), "{said}");
    let notices: Vec<_> = said.lines().filter(|line| line.contains("no MongoDB server")).collect();
    assert_eq!(notices.len(), 1, "{said}");
    proxy.set(0);
    runlore::replay(queues(&folder).join(".spool"), &proxy.uri(&direct), |_| ()).unwrap();
    assert_eq!(stored(&direct, "tasks").len() as u64, TASKS);
    assert_eq!(statuses(&direct), ["FINISHED"]);
}
