//! Standard output: colours on a terminal only, local times, short ids.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock};
use std::path::Path;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style as Paint};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use runlore::query::{Part, Style};
use runlore::record::Status;
use runlore_core::text::printable;

use crate::escaping::Escaping;
use crate::failure::Failure;

pub(crate) const BOLD: Paint = Paint::new().bold();
pub(crate) const DIM: Paint = Paint::new().dimmed();
pub(crate) const PLAIN: Paint = Paint::new();
pub(crate) const RED: Paint = AnsiColor::Red.on_default();

/// Returns a buffered standard output. It strips colours where they are unsupported, and escapes
/// control characters on a terminal. Flush it at the end, so that write errors are noticed.
pub(crate) fn stdout() -> BufWriter<Escaping<AutoStream<StdoutLock<'static>>>> {
    let out = Escaping::new(anstream::stdout().lock(), io::stdout().is_terminal());
    BufWriter::with_capacity(64 * 1024, out)
}

/// Escapes control characters if standard output is a terminal. For output formats other than JSON.
pub(crate) fn on_terminal(text: &str) -> Cow<'_, str> {
    if io::stdout().is_terminal() && text.contains(|c: char| c.is_control()) {
        printable(text).keep_lines().to_string().into()
    } else {
        text.into()
    }
}

/// Creates the folder of a file, and its parent folders, if it does not exist.
pub(crate) fn create_folder_of(path: &Path) -> Result<(), Failure> {
    match path.parent() {
        Some(folder) if matches!(folder.try_exists(), Ok(false)) => {
            let made = runlore::store::create_folders(folder);
            made.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Writes a file atomically: readers see the old content until the new one is complete. Creates the
/// folder. Writes directly to anything but a regular file, such as `/dev/stdout`.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let written = runlore::store::write_file(path, content);
    written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

/// Returns the colour of a status.
pub(crate) fn paint(status: Option<Status>) -> Paint {
    match status {
        Some(Status::Finished) => AnsiColor::Green.on_default(),
        Some(Status::Error) => RED,
        Some(Status::Running) => AnsiColor::Cyan.on_default(),
        _ => AnsiColor::Yellow.on_default(),
    }
}

/// The colours of a tree.
pub(crate) struct Colours;

impl Style for Colours {
    fn write(&self, f: &mut fmt::Formatter<'_>, part: Part, text: &dyn Display) -> fmt::Result {
        let paint = match part {
            Part::Workflow => BOLD,
            Part::Status(status) => paint(Some(status)),
            Part::Error => RED,
            Part::Branch | Part::Duration | Part::Values | Part::Note => DIM,
            _ => PLAIN,
        };
        write!(f, "{paint}{text}{paint:#}")
    }
}

/// Formats Unix seconds as local time, to the second.
pub(crate) fn local_time(seconds: f64) -> String {
    precise_time(seconds).map_or_else(|| seconds.to_string(), |time| time[..19].to_owned())
}

/// Formats Unix seconds as local time, to the microsecond, with the UTC offset.
pub(crate) fn precise_time(seconds: f64) -> Option<String> {
    let time = Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()?;
    let text = time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S%.6f %:z").to_string();
    // Years with other than four digits would misalign the columns.
    (seconds.is_finite() && text.as_bytes()[4] == b'-').then_some(text)
}

/// Shortens the ids of one listing. A UUID is shortened to its last group, which is enough to
/// select it. If two ids would become equal, all stay whole.
pub(crate) fn short_ids<'a>(ids: &[&'a str]) -> Vec<&'a str> {
    let short: Vec<&str> = ids.iter().map(|id| last_group(id)).collect();
    let distinct = |of: &[&str]| {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len()
    };
    if distinct(&short) == distinct(ids) { short } else { ids.to_vec() }
}

/// Returns the displayed part of an id: the last group of a UUID, or else the whole id.
pub(crate) fn last_group(id: &str) -> &str {
    let is_uuid = id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid { &id[24..] } else { id }
}
