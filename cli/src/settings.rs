//! `runlore settings`: manages the settings for recording programs.

mod check;
mod init;
mod show;

use std::io::Write;
use std::process::ExitCode;

use clap::Subcommand;

use crate::Done;
use crate::out::stdout;

/// Write, check and show settings
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore settings init          write a documented settings.yaml to edit
  runlore settings check         report mistakes in it
  runlore settings show          show each value and where it came from")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Args),
    Check(check::Args),
    Show(show::Args),
    /// Print the JSON Schema of settings.yaml, for editors
    #[command(after_help = "\
Example:
  runlore settings schema > settings.schema.json")]
    Schema,
}

pub(crate) fn run(args: &Args) -> Done {
    match &args.command {
        Command::Init(args) => init::run(args),
        Command::Check(args) => check::run(args),
        Command::Show(args) => show::run(args),
        Command::Schema => {
            let mut out = stdout();
            writeln!(out, "{:#}", runlore::settings::schema())?;
            out.flush()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
