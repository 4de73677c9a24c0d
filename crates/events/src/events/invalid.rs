//! Validation errors: a field and what is wrong with it.

use std::borrow::Cow;
use std::fmt;

use runlore_core::{Error, ErrorKind};

/// Why a record is not a valid event, or an event cannot be written as a record. The message is the
/// one that Stormlog uses.
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
    /// The record is not an object.
    NotARecord,
    /// The record has no version, and the options reject such records.
    LegacyDisabled,
    /// The version is not supported.
    UnsupportedVersion(i64),
    /// These fields are missing.
    Missing(Vec<&'static str>),
    /// These fields do not belong to a telemetry event.
    Unknown(Vec<String>),
    /// The value is not a whole number.
    NotAnInteger,
    /// The number does not fit into 64 bits.
    TooLarge,
    /// The value is not a string.
    NotAString,
    /// The string is missing, empty or blank.
    Blank,
    /// The value is neither true nor false.
    NotABoolean,
    /// The value is not an object.
    NotAnObject,
    /// The value is neither an object nor null.
    NotAnObjectWhenProvided,
    /// The number is below this minimum.
    Below(i64),
    /// The field is optional and its number is below this minimum.
    BelowWhenProvided(i64),
    /// The value exceeds the total memory of the device.
    OverTotal,
    /// The rank is not below `world_size`.
    NotBelowWorldSize,
    /// A record without a version has neither `timestamp_ns` nor a usable `timestamp`.
    NoTimestamp,
    /// The field has a value, but the capability with this name is false.
    MustBeNull(&'static str),
    /// The field is null, which schema 2 and 3 do not allow.
    MustNotBeNull,
}

const CAPABILITIES: &str = "metadata.memory_capabilities";

impl Invalid {
    pub(super) fn new(field: impl Into<Cow<'static, str>>, reason: Reason) -> Self {
        Self { field: field.into(), reason }
    }

    /// Returns the name of the field, or of the first of several. Empty if the record as a whole is
    /// wrong.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns what is wrong with the field.
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
