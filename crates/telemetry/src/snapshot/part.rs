//! Macros that derive a structure's encoding from the encodings of its fields, so that the writer,
//! the reader and the JSON cannot differ.

/// Declares a part: its structure and how it is written, read, and converted to JSON. Each field
/// has a type and, after `as`, an encoding.
macro_rules! part {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty as $code:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::snapshot::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        impl $crate::snapshot::Absent for $name {}

        impl $name {
            /// Skips the fields before this one.
            #[allow(dead_code, reason = "few parts need it")]
            pub(crate) fn skip_to(
                field: &str,
                from: &mut $crate::snapshot::Reader<'_>,
            ) -> Option<()> {
                $(
                    if field == stringify!($field) {
                        return Some(());
                    }
                    <$code as $crate::snapshot::Code>::take(from)?;
                )*
                None
            }
        }

        $crate::snapshot::coded!($name { $($field: $code,)* });
    };
}

pub(crate) use part;

/// Implements the encoding of a structure: its fields in the order of their declaration.
macro_rules! coded {
    ($name:ident { $($field:ident: $code:ty,)* }) => {
        const _: () = {
            use $crate::snapshot::{Code, Reader, key_of};

            impl Code for $name {
                type Value = Self;

                fn put(value: &Self, out: &mut Vec<u8>) {
                    $(<$code>::put(&value.$field, out);)*
                }

                fn take(from: &mut Reader<'_>) -> Option<Self> {
                    Some(Self { $($field: <$code>::take(from)?,)* })
                }

                fn write_json(from: &mut Reader<'_>, out: &mut Vec<u8>) -> Option<()> {
                    out.push(b'{');
                    $({
                        const KEY: &str = key_of(concat!(stringify!($field), "\":"));
                        <$code>::write_field(KEY, from, out)?;
                    })*
                    out.push(b'}');
                    Some(())
                }
            }
        };
    };
}

pub(crate) use coded;

/// Returns a field's name without the prefix `r#` of a raw identifier.
pub(crate) const fn key_of(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
