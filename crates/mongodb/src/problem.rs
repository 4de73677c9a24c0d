//! What went wrong at the server, in a sentence.

use mongodb::error::{Error as DriverError, ErrorKind as Kind, WriteFailure};

use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind};

/// What the driver says, without secrets and without its own frame.
pub(super) fn scrubbed(error: &DriverError) -> String {
    let said = error.kind.to_string();
    let mut said = scrub(&said);
    // Documents may be quoted in full.
    if said.len() > 400 {
        let end = (0..=400).rev().find(|at| said.is_char_boundary(*at)).unwrap_or(0);
        said.truncate(end);
        said.push('…');
    }
    said
}

/// The sentence for an error at a place.
pub(super) fn explain(place: &str, error: &DriverError) -> Error {
    let said = scrubbed(error);
    let text = match &*error.kind {
        Kind::Authentication { .. } => {
            format!("{place} refuses the user or the password: {said}")
        }
        Kind::ServerSelection { .. } if is_about_trust(&said) => {
            format!(
                "the certificate of {place} is not trusted: name its authority by tls_ca_file or tlsCAFile ({})",
                cause(&said)
            )
        }
        Kind::ServerSelection { .. } => {
            format!(
                "no MongoDB server answers at {place}: check its address, and that it runs ({})",
                cause(&said)
            )
        }
        Kind::InvalidTlsConfig { .. } => {
            format!("the encryption for {place} is not set up: {said}")
        }
        Kind::IncompatibleServer { .. } => format!("{place} is too old for this program: {said}"),
        Kind::Command(command) if command.code == UNAUTHORIZED => {
            format!("{place} does not let this user do that: {said}")
        }
        _ => format!("{place} failed: {said}"),
    };
    Error::new(ErrorKind::Store, text)
}

/// Whether a server was found, and its certificate is the problem.
fn is_about_trust(said: &str) -> bool {
    said.contains("certificate") || said.contains("UnknownIssuer")
}

/// The part of a long description of all servers that says why none was found.
fn cause(said: &str) -> &str {
    let after = said.split_once("Error: ").map_or(said, |(_, cause)| cause);
    let short = after.split([',', '}']).next().unwrap_or(after);
    short.trim_start_matches("Kind: ").trim_end()
}

const UNAUTHORIZED: i32 = 13;
/// There is another document of this id.
pub(super) const DUPLICATE: i32 = 11_000;
/// There is such an index, made with other options or under another name.
pub(super) const INDEX_IS_THERE: [i32; 2] = [85, 86];

/// Errors of a server that is about to be another: it stepped down, shuts down, or cannot be reached by its router.
const PASSING: [i32; 13] =
    [6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

/// Whether the same may work at once, on another connection.
pub(super) fn is_passing(error: &DriverError) -> bool {
    let labelled = ["RetryableWriteError", "RetryableError", "TransientTransactionError"]
        .iter()
        .any(|label| error.contains_label(label));
    labelled
        || match &*error.kind {
            Kind::Io(_) | Kind::ConnectionPoolCleared { .. } => true,
            Kind::Command(command) => PASSING.contains(&command.code),
            Kind::Write(WriteFailure::WriteConcernError(concern)) => {
                PASSING.contains(&concern.code)
            }
            Kind::InsertMany(many) => many
                .write_concern_error
                .as_ref()
                .is_some_and(|concern| PASSING.contains(&concern.code)),
            _ => false,
        }
}

/// Errors that are about what the server is asked for, whatever the documents: rights, room, and what it waits for in vain.
const OF_SERVER: [i32; 14] = [13, 18, 24, 26, 50, 59, 64, 79, 100, 112, 133, 202, 8000, 14_031];

/// Whether the server, or the driver in its place, refuses a command as a whole, and a document in it may be why.
pub(super) fn is_refusal(error: &DriverError) -> bool {
    !is_passing(error)
        && match &*error.kind {
            Kind::Command(command) => !OF_SERVER.contains(&command.code),
            Kind::InvalidArgument { .. } => true,
            _ => false,
        }
}

/// Whether the server refuses the one document that it was given, not all that is asked of it.
pub(super) fn is_of_document(error: &DriverError) -> bool {
    matches!(&*error.kind, Kind::Write(WriteFailure::WriteError(_)))
}

/// The code of a command that the server refused.
pub(super) fn code(error: &DriverError) -> Option<i32> {
    match &*error.kind {
        Kind::Command(command) => Some(command.code),
        Kind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        _ => None,
    }
}
