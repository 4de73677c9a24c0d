//! `runlore query`: any question, in MongoDB's language.

use std::io::Write;
use std::process::ExitCode;

use runlore::Provenance;
use runlore::query::{Collection, Filter, Pipeline};
use serde_json::Value;

use crate::Done;
use crate::columns::{Form, Rows};
use crate::failure::{Failure, say};
use crate::out::stdout;
use crate::store::Store;
use crate::tasks;

/// How many rows a table has, unless more are asked for.
const ROWS: u64 = 100;

/// Find tasks by a filter, or make something of them by a pipeline
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore query '{\"status\": \"ERROR\"}' --sort -started_at --limit 20
  runlore query '{\"used.lr\": {\"$gte\": 0.1}}' --fields activity_id,used.lr,generated.loss --csv
  runlore query '[{\"$group\": {\"_id\": \"$activity_id\", \"mean\": {\"$avg\": \"$duration_ns\"}}}]'
  runlore query --of workflows --fields name,status,totals.dropped

Filters and pipelines are MongoDB's; docs/query.md lists what is known. `runlore show ID --json` shows the fields of a
record.")]
pub(crate) struct Args {
    /// A filter, or a pipeline if it begins with `[` [default: every task]
    query: Option<String>,

    /// What is asked for
    #[arg(long, value_enum, default_value_t = Of::Tasks)]
    of: Of,

    /// The order: a field, from the greatest down with a `-` before it; several behind each other
    #[arg(long, value_name = "FIELD", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,

    /// How many at most, 0 for all [default: 100 in a table, else all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Leave out the first ones
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// What to show of each, such as activity_id,used.lr
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    fields: Vec<String>,

    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    Tasks,
    Workflows,
}

impl From<Of> for Collection {
    fn from(of: Of) -> Self {
        match of {
            Of::Tasks => Collection::Tasks,
            Of::Workflows => Collection::Workflows,
        }
    }
}

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let text = args.query.as_deref().unwrap_or("{}");
    if text.trim_start().starts_with('[') {
        return aggregate(args, text, store);
    }
    let filter = Filter::parse(text).map_err(|error| Failure::about(text, error))?;
    let records = store.open()?;
    let mut out = stdout();
    let limit = args.limit.unwrap_or(if args.form.is_table() { ROWS } else { 0 });
    let is_whole = args.fields.is_empty();
    if is_whole && args.form.is_table() && args.of == Of::Tasks {
        let mut asked = records.tasks().filter(filter).skip(args.skip).only(tasks::ROW);
        for field in &args.sort {
            asked = asked.sort(field);
        }
        // One more, to know whether there are more.
        let mut found = if limit == 0 { asked } else { asked.limit(limit + 1) }.to_vec()?;
        let is_cut = limit > 0 && found.len() as u64 > limit;
        found.truncate(if limit == 0 { usize::MAX } else { limit as usize });
        tasks::write_table(&mut out, &found)?;
        out.flush()?;
        tell_cut(is_cut && args.limit.is_none(), limit);
    } else {
        let mut rows = Rows::new(&mut out, args.form, columns(args))?;
        let mut count = 0;
        for document in documents(args, &records, filter)? {
            let document = document?;
            if limit > 0 && count == limit {
                tell_cut(args.limit.is_none(), limit);
                break;
            }
            rows.add(document)?;
            count += 1;
        }
        rows.finish()?;
        out.flush()?;
    }
    store.tell(&records);
    Ok(ExitCode::SUCCESS)
}

fn documents<'a>(
    args: &Args,
    records: &'a Provenance,
    filter: Filter,
) -> Result<Box<dyn Iterator<Item = runlore::Result<Value>> + 'a>, Failure> {
    macro_rules! asked {
        ($of:expr) => {{
            let mut asked = $of.filter(filter).skip(args.skip);
            for field in &args.sort {
                asked = asked.sort(field);
            }
            if let Some(limit @ 1..) = args.limit {
                asked = asked.limit(limit);
            }
            match args.form.is_json() && args.fields.is_empty() {
                true => asked.documents().run()?,
                false => asked.fields(columns(args).iter().map(String::as_str)).run()?,
            }
        }};
    }
    Ok(match args.of {
        Of::Tasks => Box::new(asked!(records.tasks())),
        Of::Workflows => Box::new(asked!(records.workflows())),
    })
}

/// The fields that are shown.
fn columns(args: &Args) -> Vec<String> {
    let usual: &[&str] = match args.of {
        _ if !args.fields.is_empty() => return args.fields.clone(),
        Of::Tasks => &[
            "task_id",
            "workflow_id",
            "activity_id",
            "status",
            "started_at",
            "ended_at",
            "duration_ns",
            "stderr",
        ],
        Of::Workflows => &["workflow_id", "name", "status", "started_at", "ended_at", "stderr"],
    };
    usual.iter().map(|&name| name.to_owned()).collect()
}

fn tell_cut(is_cut: bool, limit: u64) {
    if is_cut {
        say(&format!("these are the first {limit}; `--limit 0` shows all"));
    }
}

fn aggregate(args: &Args, text: &str, store: &Store) -> Done {
    let pipeline = Pipeline::parse(text).map_err(|error| Failure::about(text, error))?;
    if !args.sort.is_empty() || args.limit.is_some() || args.skip > 0 {
        return Err(Failure::new(
            "a pipeline has stages for this: $sort, $limit and $skip instead of --sort, --limit and --skip",
        ));
    }
    let records = store.open()?;
    let mut out = stdout();
    let mut rows = Rows::new(&mut out, args.form, args.fields.clone())?;
    for document in records.aggregate(args.of.into(), &pipeline)? {
        rows.add(document)?;
    }
    rows.finish()?;
    out.flush()?;
    store.tell(&records);
    Ok(ExitCode::SUCCESS)
}
