//! Where the attributes may stand, and what they may be given: that this compiles is most of the test.

#![allow(missing_docs)]

pub mod another_path_to_the_crate;
pub mod async_block_at_the_end;
pub mod async_functions;
pub mod async_trait_methods;
pub mod attributes_docs_and_visibility_stay;
pub mod destructured_raw_and_underscored_parameters;
pub mod errors_and_early_returns;
pub mod every_argument;
pub mod forbids_unsafe_code;
pub mod forward_passes;
pub mod free_functions;
pub mod functions_made_by_a_macro;
pub mod functions_that_never_return;
pub mod generics_lifetimes_and_const_generics;
pub mod impl_trait_in_arguments_and_returns;
pub mod methods_with_every_receiver;
pub mod other_functions_that_return_a_future;
pub mod raises_no_lints;
pub mod std_names_are_taken;
pub mod trait_methods_with_a_body;
pub mod unsafe_and_extern_functions;
pub mod without_the_prelude;

/// The crate under another path.
pub mod telemetry {
    pub use runlore::*;
}
