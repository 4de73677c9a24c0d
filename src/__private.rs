//! What the attributes expand to. Not for use by hand; it changes without notice.

pub use inventory;

pub use crate::instrument::{
    AsyncTask, Captured, Inputs, Outputs, TaskSlot, Tasked, Wait, encode_tensors, outcome_levels,
    value_levels,
};
pub use crate::ml::{Forward, tensors};
pub use crate::pipeline::{Site, SiteEntry, SiteSpec};
pub use crate::{
    __generated as generated, __metadata as metadata, __outcome as outcome, __success as success,
    __used as used, __value as value,
};
pub use runlore_core::record::Inspect;
pub use runlore_telemetry::{TelemetryChoice, TelemetryType};

/// Whether tasks may be recorded at all.
#[inline(always)]
pub fn enabled() -> bool {
    runlore_core::context::enabled()
}

/// The type of a value.
pub fn type_name_of<T: ?Sized>(_: &T) -> &'static str {
    std::any::type_name::<T>()
}

/// Keeps a closure that moves its captures from being taken for one that can be called twice.
#[inline(always)]
pub fn once<R, F: FnOnce() -> R>(body: F) -> F {
    body
}

/// Copies a value by the best its type offers.
#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    ($to:ident, $value:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::value_levels::*;
        (&&&&&&&&&Wrap(&$value)).runlore_encode($to)
    }};
}

/// An argument.
#[doc(hidden)]
#[macro_export]
macro_rules! __used {
    ($inputs:ident, $index:literal, $value:expr) => {
        $inputs.used($index, |__to| $crate::__value!(__to, $value))
    };
}

/// A field of the metadata.
#[doc(hidden)]
#[macro_export]
macro_rules! __metadata {
    ($inputs:ident, $index:literal, $value:expr) => {
        $inputs.metadata($index, |__to| $crate::__value!(__to, $value))
    };
}

/// An output.
#[doc(hidden)]
#[macro_export]
macro_rules! __generated {
    ($outputs:ident, $index:literal, $value:expr) => {
        $outputs.generated($index, |__to| $crate::__value!(__to, $value))
    };
}

/// Whether what was returned is a failure.
#[doc(hidden)]
#[macro_export]
macro_rules! __outcome {
    ($outputs:ident, $returned:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::outcome_levels::*;
        (&&&&&&Returned($returned)).runlore_judge($outputs)
    }};
}

/// What was returned, unless it is a failure.
#[doc(hidden)]
#[macro_export]
macro_rules! __success {
    ($returned:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::outcome_levels::*;
        (&&Returned($returned)).runlore_success()
    }};
}
