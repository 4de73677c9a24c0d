//! How generated code finds out whether a value holds tensors, or is a module that tells about itself, with no bound on its type:
//! as [`crate::instrument::value_levels`] do. The crate of a framework has the same for its own `Probe`.

use super::profile::Attributes;
use runlore_core::record::Inspect;
pub use runlore_core::record::{Probe, Tensors};

/// Declares the traits by which generated code looks at a `Probe`, best first: `(&&&Probe(value)).runlore_tensor(see)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_levels {
    ($probe:ident, $tensors:path, $inspect:path, $attributes:path) => {
        /// Tensors, and what is put together of them.
        #[doc(hidden)]
        pub trait ByTensors {
            /// Shows the tensors of a forward pass.
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect));
            /// Shows the tensors of a value that holds nothing else.
            fn runlore_tensors(&self, see: &mut dyn FnMut(&dyn $inspect));
        }

        impl<'a, T: ?Sized> ByTensors for &&$probe<'a, T>
        where
            $probe<'a, T>: $tensors,
        {
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                <$probe<'a, T> as $tensors>::each(self, see);
            }

            fn runlore_tensors(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                <$probe<'a, T> as $tensors>::each(self, see);
            }
        }

        /// A tuple that begins with a tensor, such as an output with a state.
        #[doc(hidden)]
        pub trait ByFirst {
            /// Shows that one.
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect));
        }

        $crate::__probe_levels!(@first $probe, $tensors, $inspect, [B] (A, B); [B, C] (A, B, C); [B, C, D] (A, B, C, D));

        /// Anything else.
        #[doc(hidden)]
        pub trait NoTensors {
            /// Shows nothing.
            fn runlore_tensor(&self, _: &mut dyn FnMut(&dyn $inspect)) {}
            /// Shows nothing.
            fn runlore_tensors(&self, _: &mut dyn FnMut(&dyn $inspect)) {}
        }

        impl<T: ?Sized> NoTensors for $probe<'_, T> {}

        /// A module that tells about itself.
        #[doc(hidden)]
        pub trait ByAttributes {
            /// Shows it.
            fn runlore_module(&self, see: &mut dyn FnMut(&dyn $attributes));
        }

        impl<'a, T: ?Sized> ByAttributes for &$probe<'a, T>
        where
            $probe<'a, T>: $attributes,
        {
            fn runlore_module(&self, see: &mut dyn FnMut(&dyn $attributes)) {
                see(*self);
            }
        }

        /// Anything else.
        #[doc(hidden)]
        pub trait NoAttributes {
            /// Shows nothing.
            fn runlore_module(&self, _: &mut dyn FnMut(&dyn $attributes)) {}
        }

        impl<T: ?Sized> NoAttributes for $probe<'_, T> {}
    };
    (@first $probe:ident, $tensors:path, $inspect:path, $([$($other:ident),*] $tuple:ty);*) => {
        $(impl<'a, A, $($other),*> ByFirst for &$probe<'a, $tuple>
        where
            $probe<'a, A>: $tensors,
        {
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect)) {
                let (first, ..) = self.0;
                <$probe<'a, A> as $tensors>::each(&$probe(first), see);
            }
        })*
    };
}

impl<T: Attributes + ?Sized> Attributes for Probe<'_, T> {
    fn attributes(&self) -> Vec<(&'static str, serde_json::Value)> {
        self.0.attributes()
    }
}

crate::__probe_levels!(Probe, Tensors, Inspect, Attributes);
