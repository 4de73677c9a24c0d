//! `runlore emit`: writes metrics and milestones from scripts.

mod import;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use runlore::emit::Telemetry;
use serde_json::Value;

use crate::Done;
use crate::failure::Failure;
use crate::out::create_folder_of;
use crate::store::Store;

/// Write metrics and events of a job, and summarize or import them
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  runlore emit --metric inference_latency=0.125
  runlore emit --metric tokens_per_sec=45.2 --metric gpu_util=88 --status completed
  runlore emit --event model_load_start --status started --backend sqlite --path telemetry.db
  runlore emit summary telemetry.jsonl

The records have the format of cloudmesh-ai-common, whose aggregator can read them. RUNLORE_EMIT_DISABLED=1 disables
this command.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    emission: Emission,
}

#[derive(Debug, Subcommand)]
enum Command {
    Summary(summary::Args),
    Import(import::Args),
}

#[derive(Debug, clap::Args)]
struct Emission {
    /// A metric; the value is a number, true, false or text
    #[arg(long = "metric", value_name = "NAME=VALUE", value_parser = metric)]
    metrics: Vec<(String, Value)>,

    /// Name of an event, such as a milestone
    #[arg(long, value_name = "NAME")]
    event: Option<String>,

    /// The status: started, completed, failed, or any other word
    #[arg(long, default_value = "completed")]
    status: String,

    /// A message
    #[arg(long)]
    message: Option<String>,

    /// Name of the command that the record describes
    #[arg(long, value_name = "NAME", default_value = "runlore")]
    command_name: String,

    /// The format to write: jsonl, sqlite or text
    #[arg(long, default_value = "jsonl")]
    backend: String,

    /// The file to write [default: telemetry.jsonl or telemetry.db; standard output for text]
    #[arg(long)]
    path: Option<PathBuf>,
}

fn metric(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() {
        return Err("the name is missing".to_owned());
    }
    let value = match serde_json::from_str(value) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => value.into(),
    };
    Ok((name.to_owned(), value))
}

impl Args {
    pub(crate) fn without_store(&self) -> Option<&'static str> {
        match &self.command {
            Some(Command::Import(_)) => None,
            Some(Command::Summary(_)) => Some("the argument names the file"),
            None => Some("`--path FILE` names where the record goes"),
        }
    }
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    match &args.command {
        Some(Command::Summary(args)) => summary::run(args),
        Some(Command::Import(args)) => import::run(args, store),
        None => emit(&args.emission),
    }
}

fn emit(args: &Emission) -> Done {
    if args.metrics.is_empty() && args.event.is_none() && args.message.is_none() {
        return Err(Failure::new(
            "nothing to emit: give --metric NAME=VALUE, --event NAME or --message TEXT",
        ));
    }
    let mut telemetry = Telemetry::new().command(&args.command_name).backend(&args.backend);
    if let Some(path) = &args.path {
        create_folder_of(path)?;
        telemetry = telemetry.path(path);
    }
    let mut emission = telemetry.emit().status(&args.status).metrics(args.metrics.clone());
    if let Some(event) = &args.event {
        emission = emission.event(event);
    }
    if let Some(message) = &args.message {
        emission = emission.message(message);
    }
    emission.send()?;
    Ok(ExitCode::SUCCESS)
}
