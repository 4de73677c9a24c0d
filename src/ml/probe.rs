//! How generated code finds out whether a value is a tensor, or a module that tells about itself, with no bound on its type: as
//! [`crate::instrument::value_levels`] do.

use super::profile::Attributes;
use crate::record::Inspect;

/// A reference to what may be a tensor or a module.
#[derive(Debug)]
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// A tensor.
pub trait ByTensor {
    /// Shows it.
    fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn Inspect));
}

impl<T: Inspect> ByTensor for &Probe<'_, T> {
    fn runlore_tensor(&self, see: &mut dyn FnMut(&dyn Inspect)) {
        see(self.0);
    }
}

/// Anything else.
pub trait NoTensor {
    /// Shows nothing.
    fn runlore_tensor(&self, _: &mut dyn FnMut(&dyn Inspect)) {}
}

impl<T: ?Sized> NoTensor for Probe<'_, T> {}

/// A module that tells about itself.
pub trait ByAttributes {
    /// Shows it.
    fn runlore_module(&self, see: &mut dyn FnMut(&dyn Attributes));
}

impl<T: Attributes> ByAttributes for &Probe<'_, T> {
    fn runlore_module(&self, see: &mut dyn FnMut(&dyn Attributes)) {
        see(self.0);
    }
}

/// Anything else.
pub trait NoAttributes {
    /// Shows nothing.
    fn runlore_module(&self, _: &mut dyn FnMut(&dyn Attributes)) {}
}

impl<T: ?Sized> NoAttributes for Probe<'_, T> {}
