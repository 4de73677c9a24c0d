//! Strings and metadata that events share, so that repeated values are stored once.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// A string of an event, which dereferences to `str`. Equal strings of consecutive events in a file
/// share memory.
///
/// ```
/// use runlore::events::TelemetryEvent;
///
/// let event = TelemetryEvent { session_id: "run-7".into(), ..Default::default() };
/// assert_eq!(event.session_id, "run-7");
/// assert!(event.session_id.starts_with("run"));
/// assert_eq!(event.event_type.to_string(), "sample");
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, text: &str) -> bool {
        **self == *text
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, text: &&str) -> bool {
        **self == **text
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, text: &Text) -> bool {
        **self == **text
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        (*text).to_owned()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// A JSON object, which dereferences to [`Map`]. Equal objects of consecutive events in a file
/// share memory; a shared object is copied when it is changed.
///
/// ```
/// use runlore::events::TelemetryEvent;
///
/// let event = TelemetryEvent { metadata: [("backend", "cuda")].into_iter().collect(), ..Default::default() };
/// let mut other = event.clone();
/// other.metadata.insert("phase".to_owned(), "warm-up".into());
/// assert_eq!(other.metadata["backend"], "cuda");
/// assert!(!event.metadata.contains_key("phase"));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(Arc<Map<String, Value>>);

impl Deref for Metadata {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Metadata {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Map<String, Value>> for Metadata {
    fn from(map: Map<String, Value>) -> Self {
        Self(Arc::new(map))
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Metadata {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
        entries.collect::<Map<_, _>>().into()
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}
