//! The names that expanded attributes use. Not a public API; it changes without notice.

pub use inventory;

pub use crate::instrument::{
    AsyncTask, Captured, Inputs, Outputs, TaskSlot, Tasked, Wait, encode_tensors, outcome_levels,
    value_levels,
};
pub use crate::ml::{
    Attributes, Forward, ModelProfile, Profiled, member_path, profile_levels, short_type_name,
    tensors,
};
pub use crate::pipeline::{Site, SiteEntry, SiteSpec};
pub use crate::{
    __generated as generated, __metadata as metadata, __outcome as outcome, __success as success,
    __used as used, __value as value,
};
pub use runlore_core::record::Inspect;
pub use runlore_telemetry::{TelemetryChoice, TelemetryType};

/// Returns whether any task may be recorded at present.
#[inline(always)]
pub fn enabled() -> bool {
    runlore_core::context::enabled()
}

/// Returns the name of the value's type.
pub fn type_name_of<T: ?Sized>(_: &T) -> &'static str {
    std::any::type_name::<T>()
}

/// Forces a closure to be `FnOnce`, even if it could be called more than once.
#[inline(always)]
pub fn once<R, F: FnOnce() -> R>(body: F) -> F {
    body
}

/// Encodes a value with the best method that its type supports.
#[doc(hidden)]
#[macro_export]
macro_rules! __value {
    ($to:ident, $value:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::value_levels::*;
        (&&&&&&&&&Wrap(&$value)).runlore_encode($to)
    }};
}

/// Records an argument.
#[doc(hidden)]
#[macro_export]
macro_rules! __used {
    ($inputs:ident, $index:literal, $value:expr) => {
        $inputs.used($index, |__to| $crate::__value!(__to, $value))
    };
}

/// Records a metadata field.
#[doc(hidden)]
#[macro_export]
macro_rules! __metadata {
    ($inputs:ident, $index:literal, $value:expr) => {
        $inputs.metadata($index, |__to| $crate::__value!(__to, $value))
    };
}

/// Records an output.
#[doc(hidden)]
#[macro_export]
macro_rules! __generated {
    ($outputs:ident, $index:literal, $value:expr) => {
        $outputs.generated($index, |__to| $crate::__value!(__to, $value))
    };
}

/// Records a returned value's error, if it is a failure.
#[doc(hidden)]
#[macro_export]
macro_rules! __outcome {
    ($outputs:ident, $returned:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::outcome_levels::*;
        (&&&&&&Returned($returned)).runlore_judge($outputs)
    }};
}

/// Returns the success value of what was returned, unless it is a failure.
#[doc(hidden)]
#[macro_export]
macro_rules! __success {
    ($returned:expr) => {{
        #[allow(unused_imports)]
        use $crate::__private::outcome_levels::*;
        (&&Returned($returned)).runlore_success()
    }};
}
