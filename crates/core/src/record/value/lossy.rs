//! Paths and other strings of the operating system, which need not be UTF-8.
//!
//! serde fails to serialize a path that is not UTF-8, and serializes an `OsStr` as a list of
//! numbers. For a path or `OsStr` inside another value, only the type shows what it is.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Returns the text of a path, with U+FFFD in place of invalid UTF-8. `None` if the value is not a
/// path.
#[cold]
pub(super) fn path_text<T: ?Sized>(value: &T) -> Option<Cow<'_, str>> {
    macro_rules! first_of {
        ($($type:ty),*) => {
            $(if let Some(path) = same::<T, $type>(value) {
                let path: &Path = path.as_ref();
                return Some(path.to_string_lossy());
            })*
        };
    }
    first_of!(Path, PathBuf, &Path, &PathBuf, Box<Path>, Rc<Path>, Arc<Path>, Cow<'_, Path>);
    None
}

/// Returns the OS string from the content of the enum variant that serde writes for an `OsStr`.
/// `None` if the content has another type.
#[cfg(unix)]
pub(super) fn os_text<T: ?Sized>(value: &T) -> Option<Cow<'_, OsStr>> {
    use std::os::unix::ffi::OsStrExt;

    let bytes = same::<T, [u8]>(value)?;
    Some(OsStr::from_bytes(bytes).into())
}

/// Returns the OS string from the content of the enum variant that serde writes for an `OsStr`.
/// `None` if the content has another type.
#[cfg(windows)]
pub(super) fn os_text<T: ?Sized>(value: &T) -> Option<Cow<'_, OsStr>> {
    use std::os::windows::ffi::OsStringExt;

    let wide = same::<T, Vec<u16>>(value)?;
    Some(std::ffi::OsString::from_wide(wide).into())
}

#[cfg(not(any(unix, windows)))]
pub(super) fn os_text<T: ?Sized>(_: &T) -> Option<Cow<'_, OsStr>> {
    None
}

/// Whether this is the type name that serde uses for `OsStr` and `OsString`.
pub(super) fn is_os_text(name: &str) -> bool {
    name == "OsString"
}

/// Returns the value as a `U`. `None` if it has another type. Ignores lifetimes.
fn same<'a, T: ?Sized, U: ?Sized>(value: &'a T) -> Option<&'a U> {
    if id_of::<T>() != id_of::<U>() || size_of::<&T>() != size_of::<&U>() {
        return None;
    }
    // SAFETY: `T` and `U` differ at most in lifetimes, so both references have the same layout.
    // Each `U` above is covariant in its lifetime, and is used no longer than `value` is borrowed.
    Some(unsafe { std::mem::transmute_copy::<&'a T, &'a U>(&value) })
}

/// Returns the id of a type, ignoring its lifetimes.
fn id_of<T: ?Sized>() -> TypeId {
    trait Typed {
        fn id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T: ?Sized> Typed for PhantomData<T> {
        fn id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let marker = PhantomData::<T>;
    let typed: &dyn Typed = &marker;
    // SAFETY: this only extends the lifetime of a type that holds nothing. `TypeId` does not
    // distinguish lifetimes.
    let typed = unsafe { std::mem::transmute::<&dyn Typed, &(dyn Typed + 'static)>(typed) };
    typed.id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_known_behind_any_pointer() {
        let path = Path::new("a/b");
        let text = Some(Cow::Borrowed("a/b"));
        assert_eq!(path_text(path), text);
        assert_eq!(path_text(&path), text);
        assert_eq!(path_text(&path.to_path_buf()), text);
        assert_eq!(path_text(&&path.to_path_buf()), text);
        assert_eq!(path_text(&Box::<Path>::from(path)), text);
        assert_eq!(path_text(&Arc::<Path>::from(path)), text);
        assert_eq!(path_text(&Cow::Borrowed(path)), text);
        assert_eq!(path_text("a/b"), None);
        assert_eq!(path_text(&[1_u8, 2][..]), None);
        assert_eq!(path_text(&0), None);
    }

    #[cfg(unix)]
    #[test]
    fn texts_of_the_system_are_their_bytes() {
        assert_eq!(os_text(&b"a\xff"[..]).unwrap().to_string_lossy(), "a\u{fffd}");
        assert_eq!(os_text("a"), None);
        assert_eq!(os_text(&[1_u16][..]), None);
    }
}
