//! Macros that declare a section or a choice once, and generate its type, documentation, parser and
//! JSON Schema from that.

/// Declares a struct whose fields are the keys of a section. The doc comments of the fields are
/// also the descriptions in the JSON Schema, which editors show. A `#[hides]` key may hold a
/// password and is omitted from the `Debug` output.
macro_rules! section {
    (
        $(#[doc = $about:expr])+
        $(#[hides($hidden:ident)])?
        pub struct $name:ident {
            $($(#[doc = $doc:expr])+ pub $key:ident: $type:ty,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[doc = $doc])+ pub $key: $type,)+
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let hidden: &[&str] = &[$(stringify!($hidden))?];
                let mut shown = f.debug_struct(stringify!($name));
                $(match hidden.contains(&stringify!($key)) {
                    true => shown.field(stringify!($key), &format_args!("(hidden)")),
                    false => shown.field(stringify!($key), &self.$key),
                };)+
                shown.finish()
            }
        }

        impl $crate::settings::setting::Setting for $name {
            fn blank() -> Self {
                Self { $($key: $crate::settings::setting::Setting::blank(),)+ }
            }

            fn read(
                &mut self,
                node: &$crate::settings::node::Node,
                reader: &mut $crate::settings::reader::Reader,
            ) {
                for entry in reader.section(node) {
                    match entry.key.as_str() {
                        $(stringify!($key) => {
                            reader.within(entry, |reader| self.$key.read(&entry.node, reader));
                        })+
                        _ => reader.unknown(entry, &[$(stringify!($key)),+]),
                    }
                }
            }

            fn each(&self, path: &str, visit: &mut dyn FnMut(&str, serde_json::Value)) {
                let dot = if path.is_empty() { "" } else { "." };
                $(self.$key.each(&format!("{path}{dot}{}", stringify!($key)), visit);)+
            }

            fn json(&self) -> serde_json::Value {
                let mut map = serde_json::Map::new();
                $(map.insert(
                    stringify!($key).to_owned(),
                    $crate::settings::setting::Setting::json(&self.$key),
                );)+
                serde_json::Value::Object(map)
            }

            fn schema() -> serde_json::Value {
                $crate::settings::schema::object(&[$((
                    stringify!($key),
                    concat!($($doc),+),
                    <$type as $crate::settings::setting::Setting>::schema,
                )),+])
            }
        }
    };
}

/// Declares an enum whose variants are written as words in the settings.
macro_rules! choice {
    (
        $(#[doc = $about:expr])+
        pub enum $name:ident {
            $($(#[doc = $doc:expr])+ $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $name {
            const ALL: &[(Self, &str)] = &[$((Self::$variant, $word)),+];

            /// Returns the word for this value in the settings.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::settings::setting::Leaf for $name {
            const WORDS: &[&str] = &[$($word),+];

            fn blank() -> Self {
                Self::ALL[0].0
            }

            fn from_node(node: &$crate::settings::node::Node) -> Result<Option<Self>, String> {
                use $crate::settings::node::Value;
                let found = match &node.value {
                    Value::Null => return Ok(None),
                    Value::Text(text) => Self::ALL.iter().find(|(_, word)| word == text),
                    _ => None,
                };
                match found {
                    Some((value, _)) => Ok(Some(*value)),
                    None => $crate::settings::setting::must_be_one_of(Self::WORDS, node),
                }
            }

            fn json(&self) -> serde_json::Value {
                self.as_str().into()
            }

            fn schema() -> serde_json::Value {
                serde_json::json!({"enum": [$($word,)+ null]})
            }
        }
    };
}

pub(super) use {choice, section};
