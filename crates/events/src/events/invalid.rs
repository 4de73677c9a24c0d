//! What is wrong with a record, as a field and a reason.

use std::borrow::Cow;
use std::fmt;

use runlore_core::{Error, ErrorKind};

/// Why a record is no telemetry event, or an event no record. Its text is the one that Stormlog has for it.
///
/// ```
/// use runlore::events::{Reason, validate};
/// use serde_json::json;
///
/// let invalid = validate(&json!({"schema_version": 7})).unwrap_err();
/// assert_eq!(invalid.field(), "schema_version");
/// assert_eq!(invalid.reason(), &Reason::UnsupportedVersion(7));
/// assert_eq!(invalid.to_string(), "Unsupported schema_version: 7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    field: Cow<'static, str>,
    reason: Reason,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The record is no object.
    NotARecord,
    /// The record has no version, and records without one are not wanted.
    LegacyDisabled,
    /// There is no such version.
    UnsupportedVersion(i64),
    /// These fields are missing.
    Missing(Vec<&'static str>),
    /// These fields are none of a telemetry event.
    Unknown(Vec<String>),
    /// Not a whole number.
    NotAnInteger,
    /// A number that 64 bits cannot hold.
    TooLarge,
    /// Not text.
    NotAString,
    /// Text with nothing but blanks in it, or none.
    Blank,
    /// Neither true nor false.
    NotABoolean,
    /// Not an object.
    NotAnObject,
    /// Neither an object nor nothing.
    NotAnObjectWhenProvided,
    /// Below what the field may be.
    Below(i64),
    /// Below what the field may be, where it is given at all.
    BelowWhenProvided(i64),
    /// More than the device has.
    OverTotal,
    /// A rank that its job does not have.
    NotBelowWorldSize,
    /// A record without a version has neither `timestamp_ns` nor a usable `timestamp`.
    NoTimestamp,
    /// There is a value, although the capability of this name says that there can be none.
    MustBeNull(&'static str),
    /// There is no value, and schema 2 and 3 must have one.
    MustNotBeNull,
}

const CAPABILITIES: &str = "metadata.memory_capabilities";

impl Invalid {
    pub(super) fn new(field: impl Into<Cow<'static, str>>, reason: Reason) -> Self {
        Self { field: field.into(), reason }
    }

    /// The field, the first of several, or nothing where it is the record as a whole.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What is wrong with it.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = &self.field;
        let in_capabilities = field.starts_with(CAPABILITIES);
        match &self.reason {
            Reason::NotARecord => f.write_str("record must be a mapping"),
            Reason::LegacyDisabled => f.write_str("Legacy record conversion is disabled"),
            Reason::UnsupportedVersion(version) => {
                write!(f, "Unsupported schema_version: {version}")
            }
            Reason::Missing(fields) if in_capabilities => {
                write!(f, "Missing memory capability fields: {}", fields.join(", "))
            }
            Reason::Missing(fields) => {
                write!(f, "Missing required telemetry fields: {}", fields.join(", "))
            }
            Reason::Unknown(fields) if in_capabilities => {
                write!(f, "Unknown memory capability fields: {}", fields.join(", "))
            }
            Reason::Unknown(fields) => write!(f, "Unknown telemetry fields: {}", fields.join(", ")),
            Reason::NotAnInteger => write!(f, "{field} must be an integer"),
            Reason::TooLarge => write!(f, "{field} must be an integer of at most 64 bits"),
            Reason::NotAString => write!(f, "{field} must be a string"),
            Reason::Blank => write!(f, "{field} must be a non-empty string"),
            Reason::NotABoolean => write!(f, "{field} must be a boolean"),
            Reason::NotAnObject => write!(f, "{field} must be an object"),
            Reason::NotAnObjectWhenProvided => {
                write!(f, "{field} must be an object when provided")
            }
            Reason::Below(least) => write!(f, "{field} must be >= {least}"),
            Reason::BelowWhenProvided(least) => {
                write!(f, "{field} must be >= {least} when provided")
            }
            Reason::OverTotal => write!(f, "{field} cannot exceed device_total_bytes"),
            Reason::NotBelowWorldSize => write!(f, "{field} must be < world_size"),
            Reason::NoTimestamp => f.write_str("Legacy record is missing a valid timestamp"),
            Reason::MustBeNull(_) if field == "allocator_change_bytes" => {
                write!(f, "{field} must be null when allocator allocated memory is unsupported")
            }
            Reason::MustBeNull(capability) => {
                write!(f, "{field} must be null when {CAPABILITIES}.{capability} is false")
            }
            Reason::MustNotBeNull => {
                write!(f, "{field} is null, which schema 2 and 3 cannot say")
            }
        }
    }
}

impl std::error::Error for Invalid {}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Error::new(ErrorKind::Record, invalid.to_string())
    }
}
