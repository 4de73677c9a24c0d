//! Secrets stay out of everything that is recorded, and nothing else is hidden.

use std::collections::BTreeMap;
use std::path::Path;

use runlore::record::{is_secret_name, scrub};
use runlore::{task, telemetry_task, workflow};
use serde::Serialize;

const HIDDEN: &str = include_str!("data/secrets/hidden.txt");
const VISIBLE: &str = include_str!("data/secrets/visible.txt");

/// What stands for `§` in the list of hidden texts.
const SECRET: &str = "Sw0rdf1sh";

/// The texts with a secret, and what must not be seen of each. A text that ends in `~` is one as a whole word.
fn planted() -> impl Iterator<Item = (String, String)> {
    HIDDEN.lines().map(|line| {
        let text = line.replace("\\n", "\n").replace('§', SECRET);
        match text.find('~') {
            Some(end) => {
                let start = text[..end].rfind(' ').map_or(0, |at| at + 1);
                (text.replace('~', ""), text[start..end].to_owned())
            }
            None if line.contains('§') => (text, SECRET.to_owned()),
            None => {
                let digits = |c: char| !c.is_ascii_digit();
                let number =
                    text.rsplit(digits).find(|number| number.len() > 3).unwrap().to_owned();
                (text, number)
            }
        }
    })
}

#[test]
fn names_of_both_lists_are_told_apart() {
    for name in include_str!("data/secrets/hidden.names").lines() {
        assert!(is_secret_name(name), "{name}");
    }
    for name in include_str!("data/secrets/visible.names").lines() {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn texts_with_secrets_lose_them_and_keep_the_rest() {
    let shown: Vec<_> = planted().map(|(text, secret)| (scrub(&text), secret)).collect();
    let left: Vec<_> = shown.iter().filter(|(shown, secret)| shown.contains(secret)).collect();
    assert!(left.is_empty(), "{left:#?}");
    let changed: Vec<_> = VISIBLE
        .lines()
        .map(|text| (text, scrub(text)))
        .filter(|(text, shown)| text != shown)
        .collect();
    assert!(changed.is_empty(), "{changed:#?}");
}

#[derive(Debug, Serialize)]
struct Holder<'a> {
    text: &'a str,
    listed: Vec<&'a str>,
    by_name: BTreeMap<&'a str, &'a str>,
    bytes: (String, &'a [u8]),
}

#[telemetry_task]
fn works(text: &str, holder: &Holder<'_>, shown: &dyn std::fmt::Debug) -> Result<String, String> {
    _ = (holder, shown);
    if text.len().is_multiple_of(2) { Ok(text.to_owned()) } else { Err(text.to_owned()) }
}

/// Everything that the files below a folder hold, which also has the names of the files.
fn everything(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        all.extend_from_slice(path.to_string_lossy().as_bytes());
        if path.is_dir() {
            all.extend(everything(&path));
        } else {
            all.extend(std::fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn secrets_of_every_kind_are_in_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("records");
    let names: Vec<&str> = include_str!("data/secrets/hidden.names").lines().collect();
    let texts: Vec<(String, String)> = planted().collect();
    let mut builder = workflow(format!("run with password={SECRET}"))
        .description(format!("uses token={SECRET}"))
        .subtype(format!("api_key={SECRET}"))
        .store(records.as_path());
    if cfg!(feature = "sqlite") {
        builder = builder
            .store(format!("sqlite://{}", folder.path().join("records.db").display()).as_str());
    }
    for name in &names {
        builder = builder.used(name, SECRET).metadata(name, [SECRET]);
    }
    let run = builder.start().unwrap();
    plant(&names, &texts);
    let while_running = everything(folder.path());
    run.finish().unwrap();
    let all = [while_running, everything(folder.path())].concat();
    assert_redacted(&all, &texts);
}

/// Records tasks with all secrets, in every place of a task.
fn plant(names: &[&str], texts: &[(String, String)]) {
    for (text, _) in texts {
        let holder = Holder {
            text,
            listed: vec!["--token", SECRET, "-u", "ann:Sw0rdf1sh", text],
            by_name: names.iter().map(|name| (*name, SECRET)).collect(),
            bytes: ("Authorization".to_owned(), SECRET.as_bytes()),
        };
        _ = works(text, &holder, &holder);
        let named =
            task(&format!("step {text}")).tag(text).used("text", text).metadata("note", text);
        _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            named.run(|| panic!("{text}"))
        }));
    }
}

/// Panics if one of the secrets is in these bytes, or if nothing is redacted in them.
fn assert_redacted(all: &[u8], texts: &[(String, String)]) {
    let all = String::from_utf8_lossy(all);
    assert!(all.contains("[redacted]"));
    for secret in texts.iter().map(|(_, secret)| secret.as_str()).filter(|secret| secret.len() > 6)
    {
        let at = all.find(secret);
        assert!(at.is_none(), "{secret}: …{}…", around(&all, at.unwrap_or(0)));
    }
}

#[cfg(all(target_os = "linux", feature = "sqlite", feature = "report"))]
mod on_disk {
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use runlore::Provenance;
    use runlore::emit::Telemetry;
    use runlore::report::RunReport;
    use rusqlite::Connection;

    use super::*;
    use crate::support::{child, is_child, wait_until};

    const NAME: &str = "secrets::on_disk::secrets_are_in_no_queue_overflow_spool_message_or_report";

    /// Records all secrets, and waits to be killed. Its panics, which the program itself reports,
    /// go nowhere.
    fn record_and_wait() -> ! {
        std::panic::set_hook(Box::new(|_| ()));
        let folder = std::env::var("FOLDER").unwrap();
        let names: Vec<&str> = include_str!("data/secrets/hidden.names").lines().collect();
        let texts: Vec<(String, String)> = planted().collect();
        let _run = workflow("killed")
            .store(format!("{folder}/records").as_str())
            .store(format!("sqlite://{folder}/locked.db").as_str())
            .start()
            .unwrap();
        plant(&names, &texts);
        let metrics = Telemetry::new().path(format!("{folder}/metrics.jsonl"));
        let table = metrics.clone().backend("text").path(format!("{folder}/metrics.txt"));
        task("emits").run(|| {
            for (text, _) in &texts {
                metrics.emit().metric("text", text.as_str()).event(text).message(text);
                table.emit().metric("text", text.as_str()).status(text).message(text);
            }
            for name in &names {
                metrics.emit().metric(name, SECRET);
            }
        });
        println!("ready");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn secrets_are_in_no_queue_overflow_spool_message_or_report() {
        if is_child(NAME) {
            record_and_wait();
        }
        let texts: Vec<(String, String)> = planted().collect();
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("locked.db");
        workflow("first").store(&*database).start().unwrap().finish().unwrap();
        let other = Connection::open(&database).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();

        let mut command = child(NAME);
        command.env("FOLDER", folder.path());
        command.env("RUNLORE_RECORDER__RING_BYTES", "16KiB");
        command.env("RUNLORE_RECORDER__MAX_WAIT_MS", "100ms");
        command.stdout(Stdio::piped());
        command.stderr(fs::File::create(folder.path().join("messages")).unwrap());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("ready")));
        let spool = folder.path().join(".spool");
        wait_until("nothing is in the spool", || everything_in(&spool).len() > 10_000);
        let while_running = everything(folder.path());
        process.kill().unwrap();
        process.wait().unwrap();
        let names = String::from_utf8_lossy(&while_running).into_owned();
        assert!(names.contains("/.rings/") && names.contains("/overflow"), "all went another way");
        assert_redacted(&while_running, &texts);
        assert_redacted(&everything(folder.path()), &texts);

        other.execute_batch("ROLLBACK").unwrap();
        runlore::recover(folder.path().join("records")).unwrap();
        runlore::recover(folder.path()).unwrap();
        let records = Provenance::open(folder.path().join("records")).unwrap();
        let run = records.runs().unwrap().into_iter().find(|run| run.tasks > 300).unwrap();
        let report = RunReport::builder(&records, &run.workflow.workflow_id).build().unwrap();
        for (name, text) in [
            ("report.html", report.to_html()),
            ("report.md", report.to_markdown()),
            ("report.json", report.to_json()),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_redacted(&everything(folder.path()), &texts);
    }

    fn everything_in(folder: &Path) -> Vec<u8> {
        if folder.exists() { everything(folder) } else { Vec::new() }
    }
}

fn around(text: &str, at: usize) -> String {
    let start = text.floor_char_boundary(at.saturating_sub(200));
    text[start..text.floor_char_boundary(at + 60)].to_owned()
}

#[test]
fn a_secret_across_the_copy_limit_is_not_shown_in_part() {
    let store = runlore::store::MemoryStore::new();
    let run = workflow("cut").store(store.clone()).start().unwrap();
    for before in [4050, 4080, 4096] {
        for secret in [
            format!("password={}", SECRET.repeat(300)),
            format!("pg://ann:{}@h/db", SECRET.repeat(300)),
        ] {
            let text = format!("{} {secret}", "x".repeat(before));
            task("long").used("text", &text).run(|| ());
        }
    }
    run.finish().unwrap();
    let all = serde_json::to_string(&store.records()).unwrap();
    assert!(!all.contains("Sw0"), "{all}");
}

#[test]
fn visible_texts_are_recorded_as_they_are() {
    let store = runlore::store::MemoryStore::new();
    let run = workflow("visible").store(store.clone()).start().unwrap();
    for text in VISIBLE.lines() {
        task("visible").used("text", text).run(|| ());
    }
    let names: Vec<_> = include_str!("data/secrets/visible.names").lines().collect();
    for name in &names {
        task("named").used(name, "seen").run(|| ());
    }
    run.finish().unwrap();
    let tasks = store.tasks();
    let texts: Vec<_> =
        tasks.iter().filter_map(|task| task.used.as_ref()?.get("text")?.as_str()).collect();
    assert_eq!(texts, VISIBLE.lines().collect::<Vec<_>>());
    for name in names {
        assert!(
            tasks.iter().any(|task| task
                .used
                .as_ref()
                .is_some_and(|used| used.get(name) == Some(&"seen".into()))),
            "{name}"
        );
    }
}
