//! `runlore events`: works on files of telemetry events, in the format of Stormlog / GPU Memory
//! Profiler.

mod analyze;
mod convert;
mod diagnose;
mod input;
mod push;
mod sessions;
mod stats;
#[cfg(feature = "report")]
mod timeline;
mod track;
mod validate;

pub(crate) use analyze::{has_samples, read};
use clap::Subcommand;

use crate::Done;
use crate::store::Store;

/// Track memory, and validate, convert, show and analyze files of telemetry events
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore events track --sink sink/ -- make  track the memory of a command and its child processes
  runlore events validate run.jsonl          report invalid records
  runlore events convert run.json run.csv    convert to another format or schema
  runlore events sessions sink/              list the sessions of a file or a sink
  runlore events stats run.jsonl.zst         show counts and peaks
  runlore events push run.jsonl URL          send events to a monitoring endpoint
  runlore events analyze run.jsonl           find leaks, drifts and spikes
  runlore events diagnose --output diag      sample the memory of this machine into a bundle
  runlore events timeline run.jsonl -o run.html   draw memory over time

Input files are JSON, JSON Lines or CSV, optionally compressed with gzip or zstd, or the folder of a sink or of a
diagnose bundle.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Track(track::Args),
    Analyze(analyze::Args),
    Diagnose(diagnose::Args),
    Validate(validate::Args),
    Convert(convert::Args),
    Sessions(sessions::Args),
    Stats(stats::Args),
    Push(push::Args),
    #[cfg(feature = "report")]
    Timeline(timeline::Args),
}

impl Args {
    pub(crate) fn without_store(&self) -> Option<&'static str> {
        match &self.command {
            #[cfg(feature = "report")]
            Command::Timeline(args) if args.asks_for_a_run() => None,
            _ => Some("events are read from files"),
        }
    }
}

#[cfg_attr(
    not(feature = "report"),
    expect(unused_variables, reason = "only a picture has what is in a store beside events")
)]
pub(crate) fn run(args: &Args, store: &Store) -> Done {
    match &args.command {
        Command::Track(args) => track::run(args),
        Command::Analyze(args) => analyze::run(args),
        Command::Diagnose(args) => diagnose::run(args),
        Command::Validate(args) => validate::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Sessions(args) => sessions::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Push(args) => push::run(args),
        #[cfg(feature = "report")]
        Command::Timeline(args) => timeline::run(args, store),
    }
}
