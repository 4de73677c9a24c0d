//! Values keyed by name, in the order in which the system lists them.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::code::Absent;

/// Values keyed by name, such as the counters of each disk. In JSON it is an object.
///
/// ```
/// use runlore::telemetry::Named;
///
/// let sizes: Named<u64> = [("vda", 3), ("vdb", 4)].into_iter().collect();
/// assert_eq!(sizes["vdb"], 4);
/// assert_eq!(sizes.get("vdc"), None);
/// assert_eq!(sizes.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["vda", "vdb"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<T>(Vec<(String, T)>);

impl<T> Named<T> {
    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Iterates over the names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.into_iter()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, name: impl Into<String>, value: T) {
        self.0.push((name.into(), value));
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Absent for Named<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Index<&str> for Named<T> {
    type Output = T;

    /// # Panics
    ///
    /// Panics if no value has this name.
    fn index(&self, name: &str) -> &T {
        self.get(name).unwrap_or_else(|| panic!("nothing is named `{name}`"))
    }
}

impl<'a, T> IntoIterator for &'a Named<T> {
    type Item = (&'a str, &'a T);
    type IntoIter =
        std::iter::Map<std::slice::Iter<'a, (String, T)>, fn(&'a (String, T)) -> (&'a str, &'a T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl<T, N: Into<String>> FromIterator<(N, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(values: I) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Values<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Values<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("values by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
                let mut named = Named::default();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    named.push(name, value);
                }
                Ok(named)
            }
        }

        from.deserialize_map(Values(PhantomData))
    }
}
