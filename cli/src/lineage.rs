//! `runlore lineage`: shows where a value came from and where it was used.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use runlore::Provenance;
use runlore::provenance::{Subject, ValueLineage};
use runlore::query::Trace;
use runlore_core::text::printable;
use serde_json::{Value, json};

use crate::columns::{Form, Rows};
use crate::failure::Failure;
use crate::out::{BOLD, DIM, local_time, stdout};
use crate::store::Store;
use crate::{Done, select};

/// Show which tasks generated a value and which used it, in all runs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore lineage a350e9a46279                     all values of a task
  runlore lineage '[3.5, 4.0, 2.5]'                a value, as JSON
  runlore lineage xxh3-128:48764c0f                a value, by its hash

Values are identified by the hash of their content. Values of less than 16 bytes, paths, tensors and values that
contain a secret have no hash. --json prints one line per value: its hash, and the tasks that generated and used it.
--csv prints one line per value and task.")]
pub(crate) struct Args {
    /// The id of a task (or at least its first or last 4 characters), the hash of a value (or at least
    /// 8 of its digits, with or without the name of the algorithm), or a value as JSON
    subject: String,

    /// Treat the argument as a value, even if it is the id of a task
    #[arg(long)]
    value: bool,

    #[command(flatten)]
    form: Form,
}

/// The columns of CSV.
const COLUMNS: [&str; 7] =
    ["hash", "side", "task_id", "workflow_id", "activity_id", "name", "started_at"];

pub(crate) fn run(args: &Args, store: &Store) -> Done {
    let records = store.open()?;
    let subject = subject(args, &records, store)?;
    let place = store.display();
    let nothing = match &subject {
        Subject::Value(_) => format!(
            "no task in {place} generated or used this value: it must be exactly the recorded value, \
             with at least 16 bytes"
        ),
        Subject::Hash(hash) if hash.contains("/prefix:") => format!(
            "{hash} is the hash of the beginning of a value, which different values may share, so it connects no tasks"
        ),
        Subject::Hash(hash) => {
            format!("no task in {place} generated or used a value with the hash {hash}")
        }
        _ => "no value of this task has a hash: \
              values of less than 16 bytes, paths, tensors and values that contain a secret have none; \
              `unavailable` in its record has the reason for other values"
            .to_owned(),
    };
    let lineage = records.lineage_of(subject)?;
    store.tell(&records);
    let is_known =
        |value: &ValueLineage| !(value.generated_by.is_empty() && value.used_by.is_empty());
    if !lineage.values.iter().any(is_known) {
        return Err(Failure::new(nothing));
    }
    let mut out = stdout();
    if args.form.is_table() {
        for (at, value) in lineage.values.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            write(&mut out, value)?;
        }
    } else {
        let mut rows = Rows::new(&mut out, args.form, COLUMNS.map(str::to_owned).to_vec())?;
        for value in &lineage.values {
            if args.form.is_json() {
                rows.add(as_json(value))?;
            } else {
                for row in as_rows(value) {
                    rows.add(row)?;
                }
            }
        }
        rows.finish()?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn subject(args: &Args, records: &Provenance, store: &Store) -> Result<Subject, Failure> {
    let given = &*args.subject;
    if !args.value {
        let part = HashPart::of(given);
        if let Some(part) = part.filter(|part| part.algorithm.is_some()) {
            return Ok(Subject::Hash(part.whole(records)?.unwrap_or_else(|| given.to_owned())));
        }
        let asked = records.tasks().filter(select::by_id("task_id", given));
        let tasks = asked.only(["task_id", "activity_id"]).to_vec()?;
        store.tell(records);
        match &tasks[..] {
            [] => {}
            [task] => return Ok(Subject::Task(task.task_id.clone())),
            tasks => {
                let all = tasks.iter().map(|task| (&*task.task_id, task.name()));
                return Err(select::ambiguous("tasks", given, all));
            }
        }
        if let Some(hash) = part.map(|part| part.whole(records)).transpose()?.flatten() {
            return Ok(Subject::Hash(hash));
        }
    }
    // Anything that is not JSON is a text without quotes.
    Ok(serde_json::from_str(given).unwrap_or_else(|_| Value::from(given)).into())
}

/// Minimum number of digits to abbreviate a hash.
const FEWEST: usize = 8;

/// A hash or its beginning: `xxh3-128:48764c0f`, or only the digits.
#[derive(Clone, Copy)]
struct HashPart<'a> {
    given: &'a str,
    /// Everything before the colon.
    algorithm: Option<&'a str>,
    digits: &'a str,
}

impl<'a> HashPart<'a> {
    fn of(given: &'a str) -> Option<Self> {
        let is_hash = ["xxh3-128", "blake3"].iter().any(|algorithm| given.starts_with(algorithm));
        let (algorithm, digits) = match given.split_once(':') {
            Some((algorithm, digits)) if is_hash => (Some(algorithm), digits),
            _ => (None, given),
        };
        let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_enough = algorithm.is_some() || digits.len() >= FEWEST;
        (are_digits && is_enough).then_some(Self { given, algorithm, digits })
    }

    /// Whether all digits are given, so that no search is needed.
    fn is_whole(&self) -> bool {
        let of = |algorithm: &str| if algorithm.starts_with("blake3") { 64 } else { 32 };
        self.algorithm.is_some_and(|algorithm| self.digits.len() == of(algorithm))
    }

    fn stands_for(&self, hash: &str) -> bool {
        let Some((algorithm, digits)) = hash.split_once(':') else { return false };
        self.algorithm.is_none_or(|given| given == algorithm)
            && digits
                .get(..self.digits.len())
                .is_some_and(|it| it.eq_ignore_ascii_case(self.digits))
    }

    /// Returns the only hash in the tasks' records that this one abbreviates.
    fn whole(&self, records: &Provenance) -> Result<Option<String>, Failure> {
        if self.digits.len() < FEWEST {
            return Err(Failure::new(format!(
                "`{}` is too short for a hash: give at least {FEWEST} digits",
                self.given
            )));
        }
        if self.is_whole() {
            return Ok(Some(self.given.to_owned()));
        }
        let mut found = BTreeMap::new();
        for task in records.tasks().only(["task_id", "hashes"]).run()? {
            for trace in Trace::in_task(&task?, None) {
                if self.stands_for(&trace.hash) {
                    found.entry(trace.hash).or_insert(trace.name);
                }
            }
        }
        if found.len() > 1 {
            let all = found.iter().map(|(hash, name)| (&**hash, &**name));
            return Err(select::ambiguous("values", self.given, all));
        }
        Ok(found.pop_first().map(|(hash, _)| hash))
    }
}

fn write(out: &mut impl Write, value: &ValueLineage) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", printable(&value.hash))?;
    write_side(out, "generated by", &value.generated_by)?;
    write_side(out, "used by", &value.used_by)
}

fn write_side(out: &mut impl Write, what: &str, traces: &[Trace]) -> io::Result<()> {
    if traces.is_empty() {
        return writeln!(out, "  {DIM}{what:<12}  no recorded task{DIM:#}");
    }
    for (at, trace) in traces.iter().enumerate() {
        let what = if at == 0 { what } else { "" };
        let name = trace.activity_id.as_deref().unwrap_or(&trace.task_id);
        let time = trace.started_at.map(local_time).unwrap_or_default();
        let (name, value, id) =
            (printable(name), printable(&trace.name), printable(&trace.task_id));
        write!(out, "  {DIM}{what:<12}{DIM:#}  {name} as {value}  {DIM}{id}  {time}")?;
        if let Some(run) = &trace.workflow_id {
            write!(out, "  run {}", printable(run))?;
        }
        writeln!(out, "{DIM:#}")?;
    }
    Ok(())
}

fn of_trace(trace: &Trace) -> Value {
    json!({
        "task_id": trace.task_id, "workflow_id": trace.workflow_id, "activity_id": trace.activity_id,
        "name": trace.name, "started_at": trace.started_at,
    })
}

fn as_rows(value: &ValueLineage) -> impl Iterator<Item = Value> {
    let sides = [("generated", &value.generated_by), ("used", &value.used_by)];
    sides.into_iter().flat_map(move |(side, traces)| {
        traces.iter().map(move |trace| {
            let mut row = of_trace(trace);
            row["hash"] = (&*value.hash).into();
            row["side"] = side.into();
            row
        })
    })
}

fn as_json(value: &ValueLineage) -> Value {
    let side = |traces: &[Trace]| -> Vec<Value> { traces.iter().map(of_trace).collect() };
    json!({
        "hash": value.hash,
        "generated_by": side(&value.generated_by),
        "used_by": side(&value.used_by),
    })
}
