//! `runlore settings show`: shows each value and where it came from.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use runlore::record::{is_secret_name, scrub};
use runlore::settings::{Key, Origin, Settings};
use serde_json::{Value, json};

use crate::Done;
use crate::failure::say;
use crate::out::{DIM, PLAIN, stdout};
use crate::table::{self, Cell};

/// Show each setting, its value, and where the value came from
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  runlore settings show
  RUNLORE_TELEMETRY_CAPTURE__DISK=yes runlore settings show --changed
  runlore settings show --json | jq -r 'select(.from != \"default\") | .key'")]
pub(crate) struct Args {
    /// Read only this file [default: all settings files that apply here]
    path: Option<PathBuf>,

    /// Show only settings that differ from the defaults
    #[arg(long)]
    changed: bool,

    /// Print one JSON object per setting
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Done {
    let loaded = match &args.path {
        Some(path) => Settings::load_from(path),
        None => Settings::load(),
    };
    for problem in loaded.problems() {
        say(&problem.to_string());
    }
    let mut keys = loaded.keys();
    if args.changed {
        let defaults = Settings::default().keys();
        keys.retain(|key| {
            !defaults.iter().any(|(path, value)| (path, value) == (&key.path, &key.value))
        });
    }
    for key in &mut keys {
        let value = std::mem::take(&mut key.value);
        key.value = without_secrets(&key.path, value);
    }
    let mut out = stdout();
    if args.json {
        for key in &keys {
            writeln!(out, "{}", as_json(key))?;
        }
    } else {
        let rows: Vec<_> = keys.iter().map(row).collect();
        table::write(&mut out, &["KEY", "VALUE", "FROM"], &rows)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Hides secrets: user-defined keys may be secret by name, and any text may contain a URL with a
/// password.
fn without_secrets(path: &str, value: Value) -> Value {
    let own = path.strip_prefix("extra_metadata.");
    hide(value, own.is_some_and(|key| key.split('.').any(is_secret_name)))
}

fn hide(value: Value, secret: bool) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value,
        _ if secret => "[redacted]".into(),
        Value::String(text) => scrub(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| hide(item, false)).collect(),
        Value::Object(fields) => {
            let hidden = fields.into_iter().map(|(name, value)| {
                let secret = is_secret_name(&name);
                (name, hide(value, secret))
            });
            Value::Object(hidden.collect())
        }
        number => number,
    }
}

fn row(key: &Key) -> Vec<Cell> {
    let value = match &key.value {
        Value::Null => "~".to_owned(),
        Value::String(text) if text.is_empty() => "''".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let paint = if key.origin == Origin::Default { DIM } else { PLAIN };
    vec![Cell::new(&key.path), Cell::new(&value), Cell::styled(&key.origin.to_string(), paint)]
}

fn as_json(key: &Key) -> Value {
    let mut json = json!({"key": key.path, "value": key.value, "from": "default"});
    match &key.origin {
        Origin::File { name, line } => {
            json["from"] = "file".into();
            json["file"] = name.as_str().into();
            json["line"] = (*line).into();
        }
        Origin::Variable(name) => {
            json["from"] = "variable".into();
            json["variable"] = name.as_str().into();
        }
        _ => {}
    }
    json
}
