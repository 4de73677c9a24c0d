//! How a command fails: with one message, or silently if the reader has closed the pipe.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory as _;
use runlore::query::SyntaxError;
use runlore_core::text::printable;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for the user.
    Message(String),
    /// A message for the user, and lines that point at the mistake.
    Pointed(String, String),
    /// The reader closed our output, as `head` does. This is not an error.
    ClosedPipe,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }

    /// Creates a failure for a mistake in a command-line text. It points at the position, if known.
    pub(crate) fn in_text(error: &runlore::Error) -> Self {
        let place = error.get_ref().and_then(|cause| cause.downcast_ref::<SyntaxError>());
        match place {
            Some(place) => Failure::Pointed(error.to_string(), place.caret()),
            None => Failure::Message(error.to_string()),
        }
    }

    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Failure::Message(message) => {
                say(message);
                ExitCode::FAILURE
            }
            Failure::Pointed(message, caret) => {
                say(message);
                let _ = writeln!(anstream::stderr(), "{}", printable(caret).keep_lines());
                ExitCode::FAILURE
            }
            Failure::ClosedPipe => ExitCode::SUCCESS,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Message(format!("cannot write: {error}")),
        }
    }
}

impl From<runlore::Error> for Failure {
    fn from(error: runlore::Error) -> Self {
        Failure::Message(error.to_string())
    }
}

/// Prints one message to standard error. The message may quote records, so it is made printable.
pub(crate) fn say(message: &str) {
    // If standard error is closed, there is no way to report anything.
    let _ = writeln!(anstream::stderr(), "runlore: {}", printable(message));
}

/// Reports a usage error, or prints the requested help.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::FAILURE
        }
        _ => {
            // The text starts with the error, followed by a blank line and hints.
            let text = error.to_string();
            let what = text.split("\n\n").next().unwrap_or(&text);
            let what = what.strip_prefix("error: ").unwrap_or(what);
            let words: Vec<&str> = what.split_whitespace().collect();
            let mut tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            // A mistyped option is rarely meant as a value.
            let tip = tips.find(|tip| !tip.starts_with("to pass"));
            let hint = tip.map_or_else(|| format!("see `{} --help`", asked(&text)), str::to_owned);
            say(&format!("{}; {hint}", words.join(" ")));
            ExitCode::FAILURE
        }
    }
}

/// Returns the command that was mistyped, from the usage line of clap's message. If the message has
/// none, as for a wrong value, the command line decides.
fn asked(text: &str) -> String {
    let Some(usage) = text.lines().find_map(|line| line.strip_prefix("Usage: ")) else {
        return typed(std::env::args_os().skip(1));
    };
    let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words: Vec<&str> = usage.split_whitespace().take_while(is_name).collect();
    words.join(" ")
}

/// Returns the command that the words of a command line name.
fn typed(words: impl Iterator<Item = OsString>) -> String {
    let program = crate::Cli::command();
    let (mut command, mut path) = (&program, "runlore".to_owned());
    for word in words {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner;
            path = format!("{path} {}", word.display());
        }
    }
    path
}
