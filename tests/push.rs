//! Events on their way to an endpoint: one that takes them, one that fails, hangs, refuses or goes away.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runlore::events::TelemetryEvent;
use runlore::push::Pusher;
use runlore::tracker::Tracker;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{child, finished_in_time, is_child};

/// How the endpoint answers a request.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Takes,
    /// With this status.
    Says(u16),
    /// Not at all, until the client gives up.
    Hangs,
    /// By closing the connection.
    Closes,
}

/// An endpoint on a free port.
struct Server {
    url: String,
    /// What it is to do with each request; the last one from then on.
    script: Arc<Mutex<Vec<How>>>,
    /// The numbers of the events that it took, and the key of each request.
    taken: Arc<Mutex<Vec<u64>>>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(script: &[How]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/metrics", listener.local_addr().unwrap());
        let server = Self {
            url,
            script: Arc::new(Mutex::new(script.to_vec())),
            taken: Arc::default(),
            keys: Arc::default(),
        };
        let (script, taken, keys) =
            (Arc::clone(&server.script), Arc::clone(&server.taken), Arc::clone(&server.keys));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, taken, keys) =
                    (Arc::clone(&script), Arc::clone(&taken), Arc::clone(&keys));
                std::thread::spawn(move || answer(&stream, &script, &taken, &keys));
            }
        });
        server
    }

    fn taken(&self) -> Vec<u64> {
        self.taken.lock().unwrap().clone()
    }
}

fn answer(
    stream: &TcpStream,
    script: &Mutex<Vec<How>>,
    taken: &Mutex<Vec<u64>>,
    keys: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut key, mut line) = (0, String::new(), String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim().split_once(": ") else {
                if line.trim().is_empty() { break } else { continue }
            };
            match &*name.to_lowercase() {
                "content-length" => length = value.parse().unwrap(),
                "idempotency-key" => key = value.to_owned(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        keys.lock().unwrap().push(key);
        let how = {
            let mut script = script.lock().unwrap();
            if script.len() > 1 { script.remove(0) } else { script[0] }
        };
        let status = match how {
            How::Takes => {
                let body: Value = serde_json::from_slice(&body).unwrap();
                let events = body["events"].as_array().unwrap();
                let mut taken = taken.lock().unwrap();
                taken
                    .extend(events.iter().filter_map(|event| event["metadata"]["number"].as_u64()));
                200
            }
            How::Says(status) => status,
            How::Hangs => return std::thread::sleep(Duration::from_secs(30)),
            How::Closes => return,
        };
        let answer = format!("HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn event(number: u64) -> TelemetryEvent {
    let mut event = TelemetryEvent { session_id: "s".into(), ..TelemetryEvent::default() };
    event.metadata.insert("number".to_owned(), number.into());
    event
}

/// Requests may take as long as a busy machine needs.
fn pusher(url: &str) -> Pusher {
    let minute = Duration::from_secs(60);
    Pusher::new(url).unwrap().backoff(Duration::from_millis(1)).timeout(minute)
}

#[test]
fn events_go_in_batches() {
    let server = Server::start(&[How::Takes]);
    let pushed = pusher(&server.url).batch(40).push((0..100).map(event)).unwrap();
    assert_eq!((pushed.sent, pushed.refused, pushed.requests), (100, 0, 3));
    assert_eq!(server.taken(), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_batch_is_sent_again_until_it_is_taken() {
    let script = [How::Says(500), How::Says(429), How::Closes, How::Says(503), How::Takes];
    let server = Server::start(&script);
    let pushed = pusher(&server.url).push((0..10).map(event)).unwrap();
    assert_eq!((pushed.sent, pushed.requests), (10, 5));
    assert_eq!(server.taken(), (0..10).collect::<Vec<_>>(), "each once");
    let keys = server.keys.lock().unwrap();
    assert!(keys.iter().all(|key| *key == keys[0] && key.len() == 36), "{keys:?}");
}

#[test]
fn a_request_that_hangs_is_given_up_and_sent_again() {
    let server = Server::start(&[How::Hangs, How::Takes]);
    let patient = pusher(&server.url).timeout(Duration::from_millis(500)).retries(u32::MAX);
    let pushed = patient.push((0..10).map(event)).unwrap();
    assert!(pushed.sent == 10 && pushed.requests >= 2, "{pushed:?}");
    // A machine that is busy may answer too late: what arrived twice has one key.
    assert_eq!(server.taken()[..10], (0..10).collect::<Vec<_>>());
    let keys = server.keys.lock().unwrap();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[test]
fn a_refusal_is_told_and_not_argued_with() {
    let server = Server::start(&[How::Says(403), How::Takes]);
    let pushed = pusher(&server.url).batch(5).push((0..10).map(event)).unwrap();
    assert_eq!((pushed.sent, pushed.refused, pushed.requests), (5, 5, 2));
    assert_eq!(pushed.last_refusal.as_deref(), Some("it answers with status 403"));
    assert_eq!(server.taken(), (5..10).collect::<Vec<_>>());
}

#[test]
fn an_endpoint_that_stays_away_is_given_up() {
    let server = Server::start(&[How::Takes, How::Says(500)]);
    let error = pusher(&server.url).batch(4).retries(2).push((0..10).map(event)).unwrap_err();
    assert!(
        error.to_string().ends_with("it answers with status 500; 4 were sent before"),
        "{error}"
    );
    assert_eq!(server.keys.lock().unwrap().len(), 1 + 3);

    let nobody = { TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let gone = Pusher::new(&format!("http://{nobody}/")).unwrap().retries(0);
    assert!(gone.push([event(1)]).is_err());
}

#[test]
fn what_is_no_url_is_told_without_its_secrets() {
    for url in ["", "monitoring", "ftp://host/x", "http://", "file:///etc/passwd", "https:///path"]
    {
        let error = Pusher::new(url).unwrap_err();
        assert!(
            error.to_string().contains("is no URL that events can be sent to"),
            "{url}: {error}"
        );
    }
    let error = Pusher::new("ftp://ann:hunter2@host/x").unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

fn wait_for(what: &str, is_done: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tracker(pusher: Pusher) -> Tracker {
    Tracker::builder().interval(Duration::from_secs(3600)).push(pusher).start().unwrap()
}

#[test]
fn a_tracker_sends_what_it_sees() {
    let server = Server::start(&[How::Says(500), How::Takes]);
    let tracker = tracker(pusher(&server.url));
    for number in 0..50_u64 {
        tracker.event("mark", "a mark", [("number", number)]);
    }
    wait_for("events arrive while it runs", || server.taken().len() == 50);
    let stopped = tracker.stop();
    assert!(stopped.problem.is_none(), "{:?}", stopped.problem);
    assert_eq!(server.taken(), (0..50).collect::<Vec<_>>());
}

#[test]
fn what_an_endpoint_does_not_take_waits_in_the_spool() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&[How::Says(500)]);
    let spooled = || pusher(&server.url).spool(folder.path(), 1 << 20);
    let first = tracker(spooled());
    for number in 0..5_u64 {
        first.event("mark", "a mark", [("number", number)]);
    }
    let stopped = first.stop();
    assert!(stopped.problem.is_none(), "nothing is lost: {:?}", stopped.problem);
    assert!(server.taken().is_empty());

    // Without a spool they are lost, and that is told.
    let second = tracker(pusher(&server.url));
    second.event("mark", "a mark", [("number", 99)]);
    let problem = second.stop().problem.unwrap().to_string();
    assert!(problem.contains("did not reach http://127.0.0.1"), "{problem}");
    assert!(problem.contains("it answers with status 500"), "{problem}");

    *server.script.lock().unwrap() = vec![How::Takes];
    let third = tracker(spooled());
    third.event("mark", "a mark", [("number", 5)]);
    assert!(third.stop().problem.is_none());
    assert_eq!(server.taken(), [0, 1, 2, 3, 4, 5], "in order");
}

fn spooled_events(folder: &Path) -> u64 {
    let counts = fs::read_dir(folder).unwrap().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.strip_suffix(".spool")?.rsplit_once('-')?.1.parse::<u64>().ok()
    });
    counts.sum()
}

const KILLED: &str = "push::what_a_process_had_spooled_outlives_it";

#[test]
fn what_a_process_had_spooled_outlives_it() {
    if is_child(KILLED) {
        let folder = PathBuf::from(std::env::var("SPOOL").unwrap());
        let tracker = tracker(pusher(&std::env::var("URL").unwrap()).spool(&folder, 1 << 20));
        for number in 0..5_u64 {
            tracker.event("mark", "a mark", [("number", number)]);
        }
        // With the one that says that it starts.
        wait_for("events are on disk while the endpoint hangs", || spooled_events(&folder) >= 6);
        std::process::abort();
    }
    let folder = TempDir::new().unwrap();
    let server = Server::start(&[How::Hangs]);
    let mut command = child(KILLED);
    command.env("SPOOL", folder.path()).env("URL", &server.url);
    let output = finished_in_time(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && !said.contains("on disk while"), "{said}");

    *server.script.lock().unwrap() = vec![How::Takes];
    let next = tracker(pusher(&server.url).spool(folder.path(), 1 << 20));
    wait_for("the next one sends them", || server.taken().len() == 5);
    assert!(next.stop().problem.is_none());
    assert_eq!(server.taken(), [0, 1, 2, 3, 4]);
    assert_eq!(spooled_events(folder.path()), 0);
}

#[test]
fn an_endpoint_that_hangs_at_the_end_costs_nothing_that_can_be_spooled() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&[How::Hangs]);
    let (spooled, unspooled) =
        (tracker(pusher(&server.url).spool(folder.path(), 1 << 20)), tracker(pusher(&server.url)));
    for tracker in [&spooled, &unspooled] {
        tracker.event("mark", "a mark", [("number", 1)]);
    }
    let unspooled = std::thread::spawn(move || unspooled.stop().problem.unwrap().to_string());
    let problem = spooled.stop().problem;
    assert!(problem.is_none(), "nothing is lost: {problem:?}");
    assert!(spooled_events(folder.path()) >= 2);
    let lost = unspooled.join().unwrap();
    assert!(lost.contains("did not reach http://127.0.0.1"), "{lost}");
    assert!(lost.ends_with("it takes longer than 5 s"), "{lost}");
}

#[test]
fn what_is_shown_of_a_pusher_has_no_secrets() {
    let pusher = Pusher::new("https://ann:hunter2@host/x?token=hunter2")
        .unwrap()
        .header("Authorization", "Bearer hunter2")
        .header("X-Plain", "hunter2");
    let shown = format!("{pusher:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("Authorization") && shown.contains("X-Plain"), "{shown}");
}

#[test]
fn what_could_never_be_sent_or_spooled_is_told_before_anything_is() {
    let server = Server::start(&[How::Takes]);
    let header = pusher(&server.url).header("bad name", "Bearer hunter2");
    let value = pusher(&server.url).header("Authorization", "hunter2\nX: y");
    for (pusher, expected) in [
        (
            header,
            "the header that begins with `bad` cannot be sent: its name must be of letters, digits and dashes",
        ),
        (
            value,
            "the header `Authorization` cannot be sent: its value must be one line of plain text",
        ),
    ] {
        assert_eq!(pusher.push([event(1)]).unwrap_err().to_string(), expected);
        let refused = Tracker::builder().push(pusher).start().unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let unwritable = pusher(&server.url).spool(&file, 1 << 20);
    let refused = Tracker::builder().push(unwritable).start().unwrap_err().to_string();
    assert!(refused.starts_with(&format!("cannot spool to {}: ", file.display())), "{refused}");
    assert!(server.keys.lock().unwrap().is_empty(), "nothing was sent");
}
