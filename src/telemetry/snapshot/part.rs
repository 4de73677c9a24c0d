//! Structures, from the codes of their fields: what is written, what is read and what each form says cannot differ.

/// Declares a part: its type, how it is written, read, and told. A field says what it is to its users and,
/// after `as`, how it is written.
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
                #[serde(skip_serializing_if = "crate::telemetry::snapshot::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        impl $crate::telemetry::snapshot::Absent for $name {}

        impl $name {
            /// Passes over the fields before this one.
            #[allow(dead_code, reason = "few parts need it")]
            pub(in crate::telemetry) fn skip_to(
                field: &str,
                from: &mut $crate::telemetry::snapshot::Reader<'_>,
            ) -> Option<()> {
                $(
                    if field == stringify!($field) {
                        return Some(());
                    }
                    <$code as $crate::telemetry::snapshot::Code>::skip(from)?;
                )*
                None
            }
        }

        $crate::telemetry::snapshot::coded!($name { $($field: $code,)* });
    };
}

pub(in crate::telemetry) use part;

/// The code of a structure, from those of its fields in the order of their declaration.
macro_rules! coded {
    ($name:ident { $($field:ident: $code:ty,)* }) => {
        const _: () = {
            use $crate::telemetry::snapshot::{Code, Form, Reader, index_of, key_of, order};

            const KEYS: &[&str] = &[$(key_of(concat!(stringify!($field), "\":")),)*];
            const ORDER: [usize; KEYS.len()] = order(KEYS);

            #[derive(Debug)]
            pub(in crate::telemetry) struct Seen<'a> {
                $($field: <$code as Code>::Seen<'a>,)*
            }

            impl Seen<'_> {
                /// Tells the field of this number. The number is known when this is compiled, and all others go.
                #[inline(always)]
                fn tell<const FIELD: usize, F: Form>(&self, to: &mut F) -> Option<()> {
                    $({
                        const KEY: &str = key_of(concat!(stringify!($field), "\":"));
                        if FIELD == const { index_of(KEYS, KEY) } && !<$code>::is_absent(&self.$field) {
                            to.key(KEY);
                            return <$code>::tell(&self.$field, to);
                        }
                    })*
                    Some(())
                }
            }

            impl Code for $name {
                type Value = Self;
                type Seen<'a> = Seen<'a>;

                fn put(value: &Self, out: &mut Vec<u8>) {
                    $(<$code>::put(&value.$field, out);)*
                }

                fn take(from: &mut Reader<'_>) -> Option<Self> {
                    Some(Self { $($field: <$code>::take(from)?,)* })
                }

                fn see<'a>(from: &mut Reader<'a>) -> Option<Seen<'a>> {
                    Some(Seen { $($field: <$code>::see(from)?,)* })
                }

                fn skip(from: &mut Reader<'_>) -> Option<()> {
                    $(<$code>::skip(from)?;)*
                    Some(())
                }

                fn tell<F: Form>(seen: &Seen<'_>, to: &mut F) -> Option<()> {
                    let open = to.open();
                    $({
                        const FIELD: usize =
                            ORDER[index_of(KEYS, key_of(concat!(stringify!($field), "\":")))];
                        seen.tell::<FIELD, F>(to)?;
                    })*
                    to.close(open);
                    Some(())
                }

                fn pass<F: Form>(from: &mut Reader<'_>, to: &mut F) -> Option<()> {
                    if F::IS_SORTED {
                        return Self::tell(&Self::see(from)?, to);
                    }
                    let open = to.open();
                    $({
                        const KEY: &str = key_of(concat!(stringify!($field), "\":"));
                        <$code>::entry(KEY, from, to)?;
                    })*
                    to.close(open);
                    Some(())
                }
            }
        };
    };
}

pub(in crate::telemetry) use coded;

/// Which of the keys comes first when they are sorted, which comes second, and so on.
pub(in crate::telemetry) const fn order<const N: usize>(keys: &[&str]) -> [usize; N] {
    let mut order = [0; N];
    let mut at = 0;
    while at < N {
        let mut before = 0;
        let mut other = 0;
        while other < N {
            before += is_before(keys[other], keys[at]) as usize;
            other += 1;
        }
        order[before] = at;
        at += 1;
    }
    order
}

const fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    // A key ends with a byte that comes before all that names are made of.
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    false
}

/// Where a key is among others.
pub(in crate::telemetry) const fn index_of(keys: &[&str], key: &str) -> usize {
    let mut at = 0;
    while is_before(keys[at], key) || is_before(key, keys[at]) {
        at += 1;
    }
    at
}

/// A field's name without the mark that lets it be a keyword.
pub(in crate::telemetry) const fn key_of(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
