//! Paths and other texts of the system, which need not be UTF-8.
//!
//! serde's `Serialize` of a path that is not UTF-8 is an error, and that of an `OsStr` a list of numbers. Where one lies
//! inside another value, only its type says what it is.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The text of a path, with U+FFFD for what is not UTF-8. `None` if the value is no path.
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

/// The value of the variant that serde makes of an `OsStr`, as a text of the system.
#[cfg(unix)]
pub(crate) fn os_text<T: ?Sized>(value: &T) -> Option<Cow<'_, OsStr>> {
    use std::os::unix::ffi::OsStrExt;

    let bytes = same::<T, [u8]>(value)?;
    Some(OsStr::from_bytes(bytes).into())
}

/// The value of the variant that serde makes of an `OsStr`, as a text of the system.
#[cfg(windows)]
pub(crate) fn os_text<T: ?Sized>(value: &T) -> Option<Cow<'_, OsStr>> {
    use std::os::windows::ffi::OsStringExt;

    let wide = same::<T, Vec<u16>>(value)?;
    Some(std::ffi::OsString::from_wide(wide).into())
}

#[cfg(not(any(unix, windows)))]
pub(crate) fn os_text<T: ?Sized>(_: &T) -> Option<Cow<'_, OsStr>> {
    None
}

/// Whether serde's name of a type is that of `OsStr` and `OsString`.
pub(crate) fn is_os_text(name: &str) -> bool {
    name == "OsString"
}

/// The value as what it is, if it is a `U`.
fn same<'a, T: ?Sized, U: ?Sized>(value: &'a T) -> Option<&'a U> {
    if id_of::<T>() != id_of::<U>() || size_of::<&T>() != size_of::<&U>() {
        return None;
    }
    // SAFETY: `T` and `U` differ in lifetimes at most, so that the two references have one layout. Each `U` above is
    // covariant in its lifetime, and is used no longer than `value` is borrowed.
    Some(unsafe { std::mem::transmute_copy::<&'a T, &'a U>(&value) })
}

/// The id of a type, whatever its lifetimes.
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
    // SAFETY: only the lifetime is made longer, of a type that holds nothing. `TypeId` does not tell lifetimes apart.
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
