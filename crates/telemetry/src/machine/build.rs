//! How the program was built, as far as a library can know.

use serde::{Deserialize, Serialize};

use super::facts::{Reasons, facts};

facts! {
    /// How this library was built. The program around it nearly always has the same compiler,
    /// target and profile.
    pub struct Build {
        /// The compiler: `rustc 1.95.0 (59807616e 2026-04-14)`.
        pub rustc: String,
        /// The target: `x86_64-unknown-linux-gnu`.
        pub target: String,
        /// The profile, or the one that it inherits from: `debug` or `release`.
        pub profile: String,
        /// The optimisation level: `0` to `3`, `s` or `z`.
        pub opt_level: String,
        /// Whether debug assertions are on.
        pub debug_assertions: bool,
        /// The version of this library.
        pub runlore: String,
        /// The crates that have annotated functions. Other crates of the program are not known.
        pub crates: Vec<AnnotatedCrate>,
    }
}

/// A crate of the program that has annotated functions.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AnnotatedCrate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit that the crate was built from, if `RUNLORE_GIT_COMMIT` was set when it was
    /// compiled: `RUNLORE_GIT_COMMIT=$(git rev-parse HEAD) cargo build`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// The path of the crates in the reasons.
pub(super) const CRATES: &str = "build.crates";

pub(super) fn facts(reasons: &mut Reasons) -> Build {
    let known = |fact: Option<&str>| fact.map(str::to_owned);
    let build = Build {
        rustc: known(option_env!("RUNLORE_BUILT_RUSTC")),
        target: known(option_env!("RUNLORE_BUILT_TARGET")),
        profile: known(option_env!("RUNLORE_BUILT_PROFILE")),
        opt_level: known(option_env!("RUNLORE_BUILT_OPT_LEVEL")),
        debug_assertions: Some(cfg!(debug_assertions)),
        runlore: known(option_env!("CARGO_PKG_VERSION")),
        crates: None,
    };
    reasons.note(CRATES, "only a workflow knows the annotated functions of its program");
    build.explain("build", reasons, |_| "the library was not built by cargo, which tells it");
    build
}
