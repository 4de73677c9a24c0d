//! Writes documents as a table, as CSV or as JSON.

use std::io::{self, Write};
use std::time::Duration;

use runlore_core::text::human_duration;
use serde_json::Value;

use crate::out::{self, local_time};
use crate::table::{self, Cell};

/// The output format of query results.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Form {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// Print comma-separated values with a header line
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl Form {
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    pub(crate) fn is_table(self) -> bool {
        !self.json && !self.csv
    }
}

/// Writes documents, one per row.
pub(crate) struct Rows<'a, W: Write> {
    to: To<'a, W>,
    /// The fields to show. Empty if they are to be taken from the documents.
    columns: Vec<String>,
    /// Documents that are held back until all are known: a table needs the column widths, and
    /// without given columns the field names must be collected first.
    held: Vec<Value>,
}

enum To<'a, W: Write> {
    Json(&'a mut W),
    Csv(Box<csv::Writer<&'a mut W>>),
    Table(&'a mut W),
}

impl<'a, W: Write> Rows<'a, W> {
    pub(crate) fn new(out: &'a mut W, form: Form, columns: Vec<String>) -> io::Result<Self> {
        let mut to = match form {
            Form { json: true, .. } => To::Json(out),
            Form { csv: true, .. } => To::Csv(Box::new(csv::Writer::from_writer(out))),
            _ => To::Table(out),
        };
        if let To::Csv(csv) = &mut to
            && !columns.is_empty()
        {
            csv.write_record(columns.iter().map(|name| csv_text(name)))?;
        }
        Ok(Self { to, columns, held: Vec::new() })
    }

    pub(crate) fn add(&mut self, document: Value) -> io::Result<()> {
        match &mut self.to {
            To::Json(out) => writeln!(out, "{document}"),
            To::Csv(csv) if !self.columns.is_empty() => {
                Ok(csv.write_record(cells(&document, &self.columns))?)
            }
            _ => {
                self.held.push(document);
                Ok(())
            }
        }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let Self { to, columns, held } = &mut self;
        let are_new = columns.is_empty();
        if are_new {
            *columns = names_in(held);
        }
        match to {
            To::Json(_) => Ok(()),
            To::Csv(csv) => {
                if are_new {
                    csv.write_record(columns.iter().map(|name| csv_text(name)))?;
                }
                for document in held {
                    csv.write_record(cells(document, columns))?;
                }
                csv.flush()
            }
            To::Table(out) => write_table(out, columns, held),
        }
    }
}

fn cells<'d>(document: &'d Value, columns: &'d [String]) -> impl Iterator<Item = String> + 'd {
    columns.iter().map(|column| match at(document, column) {
        Some(Value::String(text)) => csv_text(text),
        other => plain(other),
    })
}

/// Escapes a text for CSV. A text that begins like a formula gets a leading apostrophe, so that
/// spreadsheets show it as text and do not execute it.
fn csv_text(text: &str) -> String {
    let text = out::on_terminal(text);
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.into_owned()
    }
}

fn write_table(out: &mut impl Write, columns: &[String], documents: &[Value]) -> io::Result<()> {
    let heading = |column: &String| {
        let values = || documents.iter().filter_map(|document| at(document, column));
        let is_number = values().any(Value::is_number)
            && values().all(|value| value.is_number() || value.is_null());
        format!("{}{}", if is_number { ">" } else { "" }, column.to_uppercase())
    };
    let headings: Vec<String> = columns.iter().map(heading).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let row = |document: &Value| -> Vec<Cell> {
        columns.iter().map(|column| Cell::new(&readable(column, at(document, column)))).collect()
    };
    let rows: Vec<Vec<Cell>> = documents.iter().map(row).collect();
    table::write(out, &headings, &rows)
}

/// Returns the names of all fields, `_id` first.
fn names_in(documents: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for document in documents {
        for name in document.as_object().into_iter().flat_map(serde_json::Map::keys) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names.sort_by_key(|name| name != "_id");
    names
}

/// Returns the value at a path. A number in the path selects an element of an array.
fn at<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    // Field names in results may contain dots.
    document.get(path).or_else(|| {
        path.split('.').try_fold(document, |value, name| match value {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            value => value.get(name),
        })
    })
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Formats a value for a table. Times and durations are human-readable.
fn readable(column: &str, value: Option<&Value>) -> String {
    let name = column.rsplit('.').next().unwrap_or(column);
    if let Some(number) = value.and_then(Value::as_f64) {
        if let "started_at" | "ended_at" | "submitted_at" | "registered_at" = name {
            return local_time(number);
        }
        if name.ends_with("_ns") && number >= 0.0 {
            return human_duration(Duration::from_nanos(number as u64));
        }
        if number.fract() != 0.0 && number.abs() < 1e15 {
            // Round to a readable number of digits. `--json` has all of them.
            return six_digits(number);
        }
        if number.abs() < 1e15 {
            return format!("{number:.0}");
        }
    }
    plain(value)
}

fn six_digits(number: f64) -> String {
    let whole = number.abs().log10().floor() as i32;
    let decimals = usize::try_from((5 - whole).clamp(0, 12)).unwrap_or_default();
    let text = format!("{number:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_shows_numbers_as_people_read_them() {
        for (column, value, text) in [
            ("mean", json!(9855.166666666666), "9855.17"),
            ("loss", json!(0.000_123_456_789), "0.000123457"),
            ("n", json!(12), "12"),
            ("n", json!(12.0), "12"),
            ("n", json!(-0.5), "-0.5"),
            ("big", json!(1.5e300), "1.5e+300"),
            ("duration_ns", json!(1500), "1.5 µs"),
            ("used", json!({"a": [1]}), "{\"a\":[1]}"),
        ] {
            assert_eq!(readable(column, Some(&value)), text);
        }
        assert_eq!(readable("n", None), "");
    }

    #[test]
    fn texts_that_begin_like_formulas_do_not_run_in_a_spreadsheet() {
        let document = json!({
            "a": "=1+1", "b": "+1", "c": "-x", "d": "@SUM(A1)", "e": "\t=1", "f": "\r=1",
            "n": -1.5, "t": "plain", "=h": 1, "o": {"-": 1}, "empty": "",
        });
        let mut out = Vec::new();
        let form = Form { json: false, csv: true };
        let columns = ["a", "b", "c", "d", "e", "f", "n", "t", "=h", "o", "empty"];
        let mut rows = Rows::new(&mut out, form, columns.map(str::to_owned).to_vec()).unwrap();
        rows.add(document.clone()).unwrap();
        rows.finish().unwrap();
        let lines = "a,b,c,d,e,f,n,t,'=h,o,empty\n\
            '=1+1,'+1,'-x,'@SUM(A1),'\t=1,\"'\r=1\",-1.5,plain,1,\"{\"\"-\"\":1}\",\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
        // Field names that come from the documents are escaped, too.
        let mut out = Vec::new();
        let mut rows = Rows::new(&mut out, form, Vec::new()).unwrap();
        rows.add(json!({"=h": "=1"})).unwrap();
        rows.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "'=h\n'=1\n");
    }

    #[test]
    fn a_path_leads_through_objects_and_arrays() {
        let document = json!({"a": {"b": [1, {"c": 2}]}, "x.y": 3});
        assert_eq!(at(&document, "a.b.1.c"), Some(&json!(2)));
        assert_eq!(at(&document, "x.y"), Some(&json!(3)));
        assert_eq!(at(&document, "a.b.c"), None);
    }
}
