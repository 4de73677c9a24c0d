//! The program `runlore`, which reads and manages recorded data. Each command has its own file.
//!
//! Exit codes: 0 success, 1 an error (including wrong usage), 2 a finding.
#![warn(clippy::print_stdout, reason = "it panics where the reader of a pipe is gone")]

mod analyze;
mod child;
mod columns;
mod compare;
mod copy;
mod demo;
mod doctor;
mod emit;
mod escaping;
mod events;
mod failure;
mod findings;
mod hints;
mod lineage;
mod lost;
mod ls;
mod machine;
mod out;
mod progress;
mod query;
mod recover;
mod replay;
#[cfg(feature = "report")]
mod report;
mod run;
mod select;
mod settings;
mod show;
#[cfg(unix)]
mod signals;
mod stats;
mod store;
mod table;
mod tasks;
mod tree;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::failure::Failure;
use crate::store::Store;

/// Look at what programs recorded with Runlore.
#[derive(Debug, Parser)]
#[command(name = "runlore", version, about, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  runlore ls                     the runs recorded in ./runlore, newest first
  runlore tree                   the newest run as a tree
  runlore tree train             the newest run named `train`
  runlore query '{\"status\": \"ERROR\"}'   the tasks that failed, in any run
  runlore --store runs.db ls     the runs in another folder or database

Exit codes: 0 success, 1 an error, 2 a finding.")]
struct Cli {
    /// The store: a folder, a file, or a URI such as sqlite://runs.db [default: $RUNLORE_STORE, else
    /// the store of the settings, else ./runlore]
    #[arg(long, global = true, value_name = "PATH|URI")]
    store: Option<std::ffi::OsString>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Run(run::Args),
    Ls(ls::Args),
    Tasks(tasks::Args),
    Show(show::Args),
    Tree(tree::Args),
    Query(query::Args),
    Stats(stats::Args),
    Lineage(lineage::Args),
    Compare(compare::Args),
    Analyze(analyze::Args),
    #[cfg(feature = "report")]
    Report(report::Args),
    Copy(copy::Args),
    Recover(recover::Args),
    Replay(replay::Args),
    Doctor(doctor::Args),
    Settings(settings::Args),
    Events(events::Args),
    Emit(emit::Args),
}

impl Command {
    /// Returns why `--store` has no effect with the command. `None` if the command uses a store.
    fn without_store(&self) -> Option<&'static str> {
        match self {
            Command::Copy(_) => Some("`runlore copy FROM TO` names both stores"),
            Command::Replay(_) => Some("`runlore replay SPOOL --to URI` names the store"),
            Command::Settings(_) => Some("settings come from files and environment variables"),
            Command::Compare(args) => args.without_store(),
            Command::Events(args) => args.without_store(),
            Command::Emit(args) => args.without_store(),
            _ => None,
        }
    }
}

/// Commands without `--store`, including their subcommands, and the exceptions among the
/// subcommands.
const WITHOUT_STORE: [&str; 5] = ["copy", "replay", "settings", "events", "emit"];
const WITH_STORE: [&str; 2] = ["timeline", "import"];

/// Hides `--store` in the help of commands that do not use it.
fn with_honest_help(command: clap::Command, takes_store: bool) -> clap::Command {
    command.mut_subcommands(|inner| {
        let name = inner.get_name();
        let takes_store =
            WITH_STORE.contains(&name) || takes_store && !WITHOUT_STORE.contains(&name);
        let hide = |arg: clap::Arg| {
            if arg.get_id() == "store" { arg.hide(!takes_store) } else { arg }
        };
        with_honest_help(inner.mut_args(hide), takes_store)
    })
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    // Propagates the global `--store` to the commands.
    command.build();
    Cli::from_arg_matches(&with_honest_help(command, true).try_get_matches()?)
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    if let (Some(_), Some(why)) = (&cli.store, cli.command.without_store()) {
        return Failure::new(format!("`--store` has no effect with this command: {why}")).report();
    }
    let store = Store::new(cli.store);
    let done = match cli.command {
        Command::Demo(args) => demo::run(&args, &store),
        Command::Run(args) => run::run(&args, &store),
        Command::Ls(args) => ls::run(&args, &store),
        Command::Tasks(args) => tasks::run(&args, &store),
        Command::Show(args) => show::run(&args, &store),
        Command::Tree(args) => tree::run(&args, &store),
        Command::Query(args) => query::run(&args, &store),
        Command::Stats(args) => stats::run(&args, &store),
        Command::Lineage(args) => lineage::run(&args, &store),
        Command::Compare(args) => compare::run(&args, &store),
        Command::Analyze(args) => analyze::run(&args, &store),
        #[cfg(feature = "report")]
        Command::Report(args) => report::run(&args, &store),
        Command::Copy(args) => copy::run(&args),
        Command::Recover(args) => recover::run(&args, &store),
        Command::Replay(args) => replay::run(&args),
        Command::Doctor(args) => doctor::run(&args, &store),
        Command::Settings(args) => settings::run(&args),
        Command::Events(args) => events::run(&args, &store),
        Command::Emit(args) => emit::run(&args, &store),
    };
    done.unwrap_or_else(|failure| failure.report())
}

/// The result of a command.
type Done = Result<ExitCode, Failure>;
