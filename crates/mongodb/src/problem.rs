//! Converts server and driver errors to readable messages.

use mongodb::error::{Error as DriverError, ErrorKind as Kind, WriteFailure};

use runlore_core::record::scrub;
use runlore_core::{Error, ErrorKind};

/// Returns the driver's message, without secrets and without its prefix.
pub(super) fn scrubbed(error: &DriverError) -> String {
    let said = error.kind.to_string();
    let mut said = scrub(&said);
    // The message may quote whole documents.
    if said.len() > 400 {
        let end = (0..=400).rev().find(|at| said.is_char_boundary(*at)).unwrap_or(0);
        said.truncate(end);
        said.push('…');
    }
    said
}

/// Converts a driver error. `place` is the server's URI for messages.
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

/// Returns whether a server was found, but its certificate is not trusted.
fn is_about_trust(said: &str) -> bool {
    said.contains("certificate") || said.contains("UnknownIssuer")
}

/// Extracts from the driver's long description of all servers why none was found.
fn cause(said: &str) -> &str {
    let after = said.split_once("Error: ").map_or(said, |(_, cause)| cause);
    let short = after.split([',', '}']).next().unwrap_or(after);
    short.trim_start_matches("Kind: ").trim_end()
}

const UNAUTHORIZED: i32 = 13;
/// Another document has this id.
pub(super) const DUPLICATE: i32 = 11_000;
/// The index exists with other options or another name.
pub(super) const INDEX_IS_THERE: [i32; 2] = [85, 86];

/// Error codes of a server that is being replaced: it stepped down, is shutting down, or cannot be
/// reached by its router.
const PASSING: [i32; 13] =
    [6, 7, 89, 91, 134, 189, 262, 9001, 10_107, 11_600, 11_602, 13_435, 13_436];

/// Returns whether an immediate retry on another connection may succeed.
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

/// Error codes that do not depend on the documents: missing rights, lack of space, timeouts.
const OF_SERVER: [i32; 14] = [13, 18, 24, 26, 50, 59, 64, 79, 100, 112, 133, 202, 8000, 14_031];

/// Returns whether the server or the driver refuses a whole command, possibly because of a
/// document.
pub(super) fn is_refusal(error: &DriverError) -> bool {
    !is_passing(error)
        && match &*error.kind {
            Kind::Command(command) => !OF_SERVER.contains(&command.code),
            Kind::InvalidArgument { .. } => true,
            _ => false,
        }
}

/// Returns whether the server refuses the single document of a command, not the command itself.
pub(super) fn is_of_document(error: &DriverError) -> bool {
    matches!(&*error.kind, Kind::Write(WriteFailure::WriteError(_)))
}

/// Returns the error code of a command that the server refused. `None` for other errors.
pub(super) fn code(error: &DriverError) -> Option<i32> {
    match &*error.kind {
        Kind::Command(command) => Some(command.code),
        Kind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        _ => None,
    }
}
