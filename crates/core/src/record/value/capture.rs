//! `CaptureValue` for plain values: numbers, text, paths, and slices of numbers.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::encode::{CaptureValue, Encoder};
use super::numeric_slice;

macro_rules! numbers {
    ($($type:ident => $encode:ident as $cast:ident),*) => {
        $(impl CaptureValue for $type {
            #[inline]
            fn capture(&self, to: &mut Encoder<'_>) {
                to.$encode(*self as $cast);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                true
            }
        })*
    };
}

numbers!(
    i8 => i64 as i64, i16 => i64 as i64, i32 => i64 as i64, i64 => i64 as i64, isize => i64 as i64,
    u8 => u64 as u64, u16 => u64 as u64, u32 => u64 as u64, u64 => u64 as u64, usize => u64 as u64,
    i128 => i128 as i128, u128 => u128 as u128, f32 => f32 as f32, f64 => f64 as f64, bool => bool as bool
);

impl CaptureValue for () {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.unit();
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for str {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for String {
    #[inline]
    fn capture(&self, to: &mut Encoder<'_>) {
        to.str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

/// A path has no hash, because it names a file whose content may change.
impl CaptureValue for Path {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.os_str(self.as_os_str());
    }
}

impl CaptureValue for PathBuf {
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_path().capture(to);
    }
}

impl CaptureValue for OsStr {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.os_str(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for OsString {
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_os_str().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

impl CaptureValue for [u8] {
    fn capture(&self, to: &mut Encoder<'_>) {
        to.bytes(self);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        true
    }
}

macro_rules! slices {
    ($($type:ty),*) => {
        $(impl CaptureValue for [$type] {
            fn capture(&self, to: &mut Encoder<'_>) {
                numeric_slice(self, to);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                true
            }
        })*
    };
}

slices!(f64, f32, i64, i32, i16, i8, u64, u32, u16, isize, usize);

impl<T> CaptureValue for Vec<T>
where
    [T]: CaptureValue,
{
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_slice().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.as_slice().is_whole()
    }
}

impl<T, const N: usize> CaptureValue for [T; N]
where
    [T]: CaptureValue,
{
    fn capture(&self, to: &mut Encoder<'_>) {
        self.as_slice().capture(to);
    }

    #[inline]
    fn is_whole(&self) -> bool {
        self.as_slice().is_whole()
    }
}

macro_rules! captured_behind {
    ($($pointer:ty),*) => {
        $(impl<T: CaptureValue + ?Sized> CaptureValue for $pointer {
            #[inline]
            fn capture(&self, to: &mut Encoder<'_>) {
                (**self).capture(to);
            }

            #[inline]
            fn is_whole(&self) -> bool {
                (**self).is_whole()
            }
        })*
    };
}

captured_behind!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);
