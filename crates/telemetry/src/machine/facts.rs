//! Structs of facts, each of which is known or has a reason.

use std::collections::BTreeMap;

/// Why a folder that looks like a machine lacks what only system calls tell.
pub(super) const ONLY_LIVE: &str = "only the machine itself can be asked";

/// Why facts are missing, by their paths.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<String, String>);

impl Reasons {
    /// Notes why something is missing; the first reason stays.
    pub(super) fn note(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.0.entry(what.into()).or_insert_with(|| why.into());
    }

    /// The value; where there is none, the reason is noted.
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

/// A struct whose fields are known or absent, and which can say which are.
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
            /// Gives every absent field a reason, unless it or the whole part has one.
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
