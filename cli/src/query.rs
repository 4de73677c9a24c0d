//! `runlore query`: runs any query in MongoDB's language.

use std::io::Write;
use std::process::ExitCode;

use runlore::Provenance;
use runlore::provenance::FromDocument as _;
use runlore::query::{Collection, Filter, Find, Pipeline, field};
use runlore::record::TaskObject;

use crate::Done;
use crate::columns::{Form, Rows};
use crate::failure::{Failure, say};
use crate::out::stdout;
use crate::store::Store;
use crate::units::moment;
use crate::{hints, tasks};

/// The default limit of rows in a table.
const ROWS: u64 = 100;

/// Find tasks with a filter, or aggregate them with a pipeline
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore query '{\"status\": \"ERROR\"}' --sort -started_at --limit 20
  runlore query --since 2h --fields activity_id,duration_ns --sort -duration_ns
  runlore query '{\"used.lr\": {\"$gte\": 0.1}}' --fields activity_id,used.lr,generated.loss --csv
  runlore query '[{\"$group\": {\"_id\": \"$activity_id\", \"mean\": {\"$avg\": \"$duration_ns\"}}}]'
  runlore query --of workflows --fields name,status,totals.dropped

Filters and pipelines are written in MongoDB's language; docs/query.md lists the supported operators and stages.
`runlore show ID --json` shows the fields of a record.")]
pub(crate) struct Args {
    /// A filter, or a pipeline if it starts with `[` [default: all tasks]
    query: Option<String>,

    /// The kind of records to search
    #[arg(long, value_enum, default_value_t = Of::Tasks)]
    of: Of,

    /// Only records that started at or after this time: how long ago, such as 2h or 3d, or a date such as
    /// "2026-11-16 18:45"
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<f64>,

    /// Only records that started before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<f64>,

    /// Sort by these fields, separated by commas; a `-` before a field sorts in descending order
    #[arg(long, value_name = "FIELD", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,

    /// Maximum number of records; 0 means all; in a pipeline, use $limit [default: 100 in a table, else all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Skip this many records
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,

    /// The fields to show, such as activity_id,used.lr
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
        if args.since.or(args.until).is_some() {
            return Err(Failure::new(
                "--since and --until work only with a filter; in a pipeline, use $match",
            ));
        }
        return aggregate(args, text, store);
    }
    let asked = Filter::parse(text).map_err(|error| Failure::in_text(&error))?;
    let since = args.since.map(|moment| field("started_at").gte(moment));
    let until = args.until.map(|moment| field("started_at").lt(moment));
    let filter = [since, until].into_iter().flatten().fold(asked, Filter::and);
    let records = store.open()?;
    let limit = args.limit.unwrap_or(if args.form.is_table() { ROWS } else { 0 });
    // Request one more than is shown, to know whether there are more.
    let asked = if limit == 0 { 0 } else { limit.saturating_add(1) };
    let mut find = Find::new().filter(filter).skip(args.skip).limit(asked);
    for field in &args.sort {
        find = find.sort(field);
    }
    let (count, is_cut) = if args.fields.is_empty() && args.form.is_table() && args.of == Of::Tasks
    {
        write_tasks(&records, &find.fields(tasks::ROW), limit)?
    } else {
        let is_whole = args.fields.is_empty() && args.form.is_json();
        let find = if is_whole { find } else { find.fields(columns(args)) };
        write_documents(args, &records, &find, limit)?
    };
    if count == 0 || !args.sort.is_empty() || !args.fields.is_empty() {
        hint(args, text, count, &records)?;
    }
    if is_cut && args.limit.is_none() {
        say(&format!("only the first {limit} are shown; `--limit 0` shows all"));
    }
    store.tell(&records);
    Ok(ExitCode::SUCCESS)
}

/// Prints a hint on what may be wrong with a valid query.
fn hint(args: &Args, text: &str, count: usize, records: &Provenance) -> Result<(), Failure> {
    let filter = serde_json::from_str(text).unwrap_or_default();
    if let Some(told) = hints::bare_operator(&filter).filter(|_| count == 0) {
        say(&told);
        return Ok(());
    }
    let mut asked = if count == 0 { hints::asked(&filter) } else { Vec::new() };
    asked.extend(args.sort.iter().map(|field| field.trim_start_matches('-').to_owned()));
    asked.extend(args.fields.iter().cloned());
    if let Some(told) = hints::unknown_field(records, args.of.into(), &asked)? {
        say(&told);
    }
    Ok(())
}

/// Writes tasks like `runlore tasks`. Returns how many, and whether there are more.
fn write_tasks(records: &Provenance, find: &Find, limit: u64) -> Result<(usize, bool), Failure> {
    let found = records.find(Collection::Tasks, find)?;
    let mut found =
        found.map(|task| TaskObject::from_document(task?)).collect::<runlore::Result<Vec<_>>>()?;
    let is_cut = limit > 0 && found.len() as u64 > limit;
    if is_cut {
        found.truncate(limit as usize);
    }
    let mut out = stdout();
    tasks::write_table(&mut out, &found, false)?;
    out.flush()?;
    Ok((found.len(), is_cut))
}

/// Writes the selected fields of documents. Returns how many documents, and whether there are more.
fn write_documents(
    args: &Args,
    records: &Provenance,
    find: &Find,
    limit: u64,
) -> Result<(usize, bool), Failure> {
    let mut out = stdout();
    let mut rows = Rows::new(&mut out, args.form, columns(args))?;
    let mut found = records.find(args.of.into(), find)?;
    let most = if limit == 0 { usize::MAX } else { limit as usize };
    let mut count = 0;
    for document in found.by_ref().take(most) {
        rows.add(document?)?;
        count += 1;
    }
    rows.finish()?;
    out.flush()?;
    Ok((count, found.next().is_some()))
}

/// Returns the fields to show.
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

fn aggregate(args: &Args, text: &str, store: &Store) -> Done {
    let pipeline = Pipeline::parse(text).map_err(|error| Failure::in_text(&error))?;
    if !args.sort.is_empty() || args.limit.is_some() || args.skip > 0 {
        return Err(Failure::new(
            "--sort, --limit and --skip work only with a filter; in a pipeline, use $sort, $limit and $skip",
        ));
    }
    let records = store.open()?;
    let mut out = stdout();
    let mut rows = Rows::new(&mut out, args.form, args.fields.clone())?;
    let mut is_empty = true;
    for document in records.aggregate(args.of.into(), &pipeline)? {
        rows.add(document?)?;
        is_empty = false;
    }
    rows.finish()?;
    out.flush()?;
    let stages = serde_json::from_str(&pipeline.to_json()).unwrap_or_default();
    let asked = hints::in_pipeline(&stages, &args.fields, is_empty);
    let told = hints::unknown_field(&records, args.of.into(), &asked.of_records)?;
    if let Some(told) = told.or(asked.not_made) {
        say(&told);
    }
    store.tell(&records);
    Ok(ExitCode::SUCCESS)
}
