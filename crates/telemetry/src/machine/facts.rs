//! Structs whose fields are either known or have a reason for being absent.

use std::collections::BTreeMap;

/// The reason for values of a test fixture that only system calls provide.
pub(super) const ONLY_LIVE: &str = "only the machine itself can be asked";

/// The reasons for absent values, by path.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<String, String>);

impl Reasons {
    /// Records why a value is absent. The first reason for a path stays.
    pub(super) fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.0.entry(what.into()).or_insert_with(|| why.into());
    }

    /// Returns the value. If it is an error, records that as the reason and returns `None`.
    pub(super) fn unless_ok<T>(&mut self, what: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|why| self.note(what, why)).ok()
    }

    pub(super) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }

    pub(super) fn has(&self, what: &str) -> bool {
        self.0.contains_key(what)
    }
}

/// Declares a struct whose fields are optional, with a method that gives reasons for the absent
/// ones.
macro_rules! facts {
    (
        $(#[$about:meta])+
        pub struct $name:ident {
            $($(#[$doc:meta])+ pub $field:ident: $type:ty,)+
        }
    ) => {
        $(#[$about])+
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,
            )+
        }

        impl $name {
            /// Records a reason for every absent field, unless the field or the whole part has one.
            fn explain(
                &self,
                part: &str,
                reasons: &mut $crate::machine::facts::Reasons,
                why: impl Fn(&str) -> &'static str,
            ) {
                $(if self.$field.is_none() && !reasons.has(part) {
                    let field = stringify!($field);
                    reasons.note(format!("{part}.{field}"), why(field));
                })+
            }
        }
    };
}

pub(super) use facts;
