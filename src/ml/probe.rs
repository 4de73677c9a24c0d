//! Lets generated code find out, without bounds on the type, whether a value contains tensors or is
//! a module with attributes. It works like [`crate::instrument::value_levels`]. The crate of a
//! framework declares the same traits for its own `Probe`.

use super::profile::Attributes;
use runlore_core::record::Inspect;
pub use runlore_core::record::{Probe, Tensors};

/// Declares the traits with which generated code inspects a `Probe`, highest rank first:
/// `(&&&Probe(value)).runlore_tensor(see)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_levels {
    ($probe:ident, $tensors:path, $inspect:path, $attributes:path) => {
        /// Tensors, and values composed of them.
        #[doc(hidden)]
        pub trait ByTensors {
            /// Visits the tensors of a forward pass.
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect));
            /// Visits the tensors of a value that contains nothing else.
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
            /// Visits the tensors in the first element.
            fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn $inspect));
        }

        $crate::__probe_levels!(@first $probe, $tensors, $inspect, [B] (A, B); [B, C] (A, B, C); [B, C, D] (A, B, C, D));

        /// All other types.
        #[doc(hidden)]
        pub trait NoTensors {
            /// Visits nothing.
            fn runlore_tensor(&self, _: &mut dyn FnMut(&dyn $inspect)) {}
            /// Visits nothing.
            fn runlore_tensors(&self, _: &mut dyn FnMut(&dyn $inspect)) {}
        }

        impl<T: ?Sized> NoTensors for $probe<'_, T> {}

        /// A module with attributes.
        #[doc(hidden)]
        pub trait ByAttributes {
            /// Visits the module.
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

        /// All other types.
        #[doc(hidden)]
        pub trait NoAttributes {
            /// Visits nothing.
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
