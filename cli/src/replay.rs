//! `runlore replay`: write what waits on disk to its store.

use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::Done;
use crate::out::stdout;
use crate::progress::Progress;
use crate::units::bytes;

/// Write records that wait on disk to a store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore replay runlore --to runlore                      what was left while ./runlore could not be written
  runlore replay /var/spool/runlore --to sqlite://runs.db  to another store than it was meant for

Each record is written once, however often this is called and wherever it was interrupted. What a process that is
alive takes care of is left to it. The next run with the same store does this by itself.")]
pub(crate) struct Args {
    /// The folder of the spool, or the one it is in
    #[arg(value_name = "SPOOL")]
    spool: PathBuf,

    /// The store: a folder or a URI
    #[arg(long, value_name = "URI")]
    to: String,

    /// What was done as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let all_bytes = Cell::new(0);
    let progress = Progress::new("bytes", || Some(all_bytes.get()));
    let replayed = runlore::replay(&args.spool, &args.to, |so_far| {
        all_bytes.set(so_far.all_bytes);
        progress.set(so_far.bytes);
    })?;
    drop(progress);
    let mut out = stdout();
    if args.json {
        let told = serde_json::json!({
            "records": replayed.records, "known": replayed.known, "bytes": replayed.bytes,
        });
        writeln!(out, "{told}")?;
    } else if replayed.records + replayed.known == 0 {
        writeln!(out, "nothing waits in {}", args.spool.display())?;
    } else {
        let (records, size) = (replayed.records, bytes(replayed.bytes));
        let s = if records == 1 { "" } else { "s" };
        writeln!(out, "wrote {records} record{s}, {size}, to {}", args.to)?;
        if replayed.known > 0 {
            writeln!(out, "{} were there already", replayed.known)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
