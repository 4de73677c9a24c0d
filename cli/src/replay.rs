//! `runlore replay`: writes records that wait on disk to their store.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use runlore::settings::Settings;
use runlore::{Replayed, Spooled};
use serde_json::Value;

use crate::Done;
use crate::failure::{Failure, say};
use crate::out::stdout;
use crate::progress::Progress;
use crate::units::{bytes, counted};

/// Write records that wait on disk (in a spool) to their store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore replay runlore --to runlore                      records kept while ./runlore was not writable
  runlore replay /var/spool/runlore --to sqlite://runs.db  only the records for this store, from a shared spool
  runlore replay runlore --from sqlite://old.db --to sqlite://new.db
                                                           records for a store that no longer exists

Each record is written exactly once, even if a replay was interrupted or is repeated. Records for other stores stay in
the spool and are listed. Records of a process that is still running are left to it. The next run with the same store
replays them automatically.

Exit codes: 0 success, 1 an error, 2 a finding: no records wait for this store, but some wait for others.")]
pub(crate) struct Args {
    /// The spool, or the folder that contains it
    #[arg(value_name = "SPOOL")]
    spool: PathBuf,

    /// The store to write to: a folder or a URI
    #[arg(long, value_name = "URI")]
    to: String,

    /// Take the records meant for this other store, which then never gets them; '' takes records whose
    /// store is unknown
    #[arg(long, value_name = "URI")]
    from: Option<String>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    if !args.spool.exists() && !is_gone_when_empty(&args.spool) {
        let folder = args.spool.display();
        return Err(Failure::new(format!(
            "the folder {folder} does not exist; nothing was replayed"
        )));
    }
    let all_bytes = Cell::new(0);
    let progress = Progress::new("bytes", || Some(all_bytes.get()));
    let show = |so_far: &Replayed| {
        all_bytes.set(so_far.all_bytes);
        progress.set(so_far.bytes);
    };
    let replayed = match &args.from {
        None => runlore::replay(&args.spool, &args.to, show),
        Some(from) => runlore::replay_from(&args.spool, from, &args.to, show),
    }?;
    drop(progress);
    let waiting = runlore::spooled(&args.spool)?;
    let mut out = stdout();
    if args.json {
        let told = serde_json::json!({
            "records": replayed.records, "known": replayed.known, "refused": replayed.refused,
            "bytes": replayed.bytes, "waiting": waiting.iter().map(as_json).collect::<Vec<_>>(),
        });
        writeln!(out, "{told}")?;
    } else {
        tell(&mut out, args, &replayed, &waiting)?;
    }
    out.flush()?;
    let problems: Vec<&String> =
        waiting.iter().filter_map(|spooled| spooled.problem.as_ref()).collect();
    problems.iter().for_each(|problem| say(problem));
    let has_done = replayed.records + replayed.known + replayed.refused > 0;
    Ok(match (problems.is_empty(), has_done || waiting.is_empty()) {
        (false, _) => ExitCode::FAILURE,
        (true, false) => ExitCode::from(2),
        (true, true) => ExitCode::SUCCESS,
    })
}

/// Whether the folder is a spool that is deleted once all its records are stored.
fn is_gone_when_empty(folder: &Path) -> bool {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    folder.ends_with(".spool") && above.is_none_or(Path::is_dir)
        || Settings::load().settings.recorder.spool.is_some_and(|spool| spool == folder)
}

fn tell(
    out: &mut impl Write,
    args: &Args,
    replayed: &Replayed,
    waiting: &[Spooled],
) -> io::Result<()> {
    // A URI may contain a password.
    let to = runlore::record::scrub(&args.to);
    let folder = args.spool.display();
    if replayed.records + replayed.known + replayed.refused > 0 {
        let records = counted(replayed.records, "record", "records");
        writeln!(out, "wrote {records} to {to}, from {} in the spool", bytes(replayed.bytes))?;
    } else if waiting.is_empty() {
        writeln!(out, "nothing waits in {folder}")?;
    } else {
        let store = match &args.from {
            None => to,
            Some(from) if from.is_empty() => "an unknown store".to_owned(),
            Some(from) => runlore::record::scrub(from),
        };
        writeln!(out, "nothing waits in {folder} for {store}")?;
    }
    if replayed.known > 0 {
        let records = counted(replayed.known, "record was", "records were");
        writeln!(out, "{records} already there")?;
    }
    if replayed.refused > 0 {
        writeln!(out, "{} refused", counted(replayed.refused, "record was", "records were"))?;
    }
    for spooled in waiting.iter().filter(|spooled| spooled.problem.is_none()) {
        writeln!(out, "{}", waits(&args.spool, spooled))?;
    }
    Ok(())
}

/// Describes the records that wait for a store, and the command that replays them.
pub(crate) fn waits(folder: &Path, spooled: &Spooled) -> String {
    let (folder, size) = (word(&folder.display().to_string()), bytes(spooled.bytes));
    match &spooled.store {
        Some(store) => {
            let to = word(store);
            format!("{size} of records wait for {store}: `runlore replay {folder} --to {to}`")
        }
        None => format!(
            "{size} of records wait for a store without a name: `runlore replay {folder} --from '' --to URI`"
        ),
    }
}

/// Returns the records that wait for a store as JSON.
pub(crate) fn as_json(spooled: &Spooled) -> Value {
    serde_json::json!({
        "workflow_id": spooled.workflow_id, "store": spooled.store, "bytes": spooled.bytes,
        "problem": spooled.problem,
    })
}

/// Quotes a text for a shell, if necessary.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._:@%+,=-".contains(c);
    if text.chars().all(is_plain) && !text.is_empty() {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
