//! How a command fails: with one sentence, or quietly where nobody listens any more.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory as _;
use runlore::query::SyntaxError;
use runlore_core::text::printable;

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// One sentence for the user.
    Message(String),
    /// One sentence for the user, and lines that point at what is wrong.
    Pointed(String, String),
    /// Whoever read our output has closed it, as `head` does: nothing is wrong.
    ClosedPipe,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }

    /// Something is wrong with a text of the command line, at a place that can be pointed at.
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

/// Says one sentence on stderr. The sentence may quote records, so it is made safe to print.
pub(crate) fn say(message: &str) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(anstream::stderr(), "runlore: {}", printable(message));
}

/// Reports what the command line got wrong, or prints the help that was asked for.
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
            // What is wrong comes first, then a blank line and hints over several lines.
            let text = error.to_string();
            let what = text.split("\n\n").next().unwrap_or(&text);
            let what = what.strip_prefix("error: ").unwrap_or(what);
            let words: Vec<&str> = what.split_whitespace().collect();
            let mut tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            // Hardly anybody who mistypes an option means a value that looks like one.
            let tip = tips.find(|tip| !tip.starts_with("to pass"));
            let hint =
                tip.map_or_else(|| format!("`{} --help` tells more", asked(&text)), str::to_owned);
            say(&format!("{}; {hint}", words.join(" ")));
            ExitCode::FAILURE
        }
    }
}

/// The command that was mistyped, out of what clap says of its usage. Of a value that is wrong it does not tell that: then what was typed does.
fn asked(text: &str) -> String {
    let Some(usage) = text.lines().find_map(|line| line.strip_prefix("Usage: ")) else {
        return typed(std::env::args_os().skip(1));
    };
    let is_name = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let words: Vec<&str> = usage.split_whitespace().take_while(is_name).collect();
    words.join(" ")
}

/// The command that words of a command line name.
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
