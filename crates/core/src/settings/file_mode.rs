//! The permissions of the files and folders that the library creates.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};

use super::node::{Node, Value};
use super::setting::{Leaf, must_be};
use crate::{Error, ErrorKind};

/// The permissions of new files, written as for `chmod`. Folders get the execute bit for everyone
/// who may read.
///
/// ```
/// use runlore::settings::FileMode;
///
/// let mode: FileMode = "0640".parse()?;
/// assert_eq!((mode.of_files(), mode.of_folders()), (0o640, 0o750));
/// assert_eq!(FileMode::default().to_string(), "0600");
/// assert!("0400".parse::<FileMode>().is_err(), "the owner must be able to write");
/// # Ok::<(), runlore::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileMode(u32);

const WANTED: &str = "permissions such as `\"0600\"`, `\"0640\"` or `\"0660\"`";

impl FileMode {
    /// Returns the permissions of files.
    pub const fn of_files(self) -> u32 {
        self.0
    }

    /// Returns the permissions of folders.
    pub const fn of_folders(self) -> u32 {
        self.0 | (self.0 & 0o444) >> 2
    }

    /// Parses octal digits. The owner must be able to read and write; execute bits are not allowed.
    fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0o").unwrap_or(text);
        let is_octal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let mode = u32::from_str_radix(digits, 8).ok().filter(|_| is_octal)?;
        (mode & 0o600 == 0o600 && mode & !0o666 == 0).then_some(Self(mode))
    }
}

/// Only the owner may read and write.
impl Default for FileMode {
    fn default() -> Self {
        Self(0o600)
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl FromStr for FileMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::new(ErrorKind::Settings, format!("`{text}` must be {WANTED}"));
        Self::read(text).ok_or_else(wrong)
    }
}

impl Leaf for FileMode {
    fn blank() -> Self {
        Self::default()
    }

    fn from_node(node: &Node) -> Result<Option<Self>, String> {
        let mode = match &node.value {
            Value::Null => return Ok(None),
            Value::Text(text) => Self::read(text),
            // Without quotes, YAML parses the digits as a decimal number.
            Value::Int(digits) => Self::read(&digits.to_string()),
            _ => None,
        };
        mode.map_or_else(|| must_be(WANTED, node), |mode| Ok(Some(mode)))
    }

    fn json(&self) -> Json {
        self.to_string().into()
    }

    fn schema() -> Json {
        json!({"anyOf": [
            {"type": "string", "pattern": "^(0o|0)?6[0246][0246]$"},
            {"type": ["integer", "null"], "minimum": 600, "maximum": 666},
        ]})
    }
}
