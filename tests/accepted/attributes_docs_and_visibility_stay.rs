#![deny(warnings)]
#![allow(clippy::non_minimal_cfg)]

use runlore::telemetry_task;

mod inner {
    use runlore::telemetry_task;

    /// Documented.
    #[telemetry_task]
    #[must_use = "it is the answer"]
    #[inline(never)]
    #[track_caller]
    pub(crate) fn answer() -> u32 {
        42
    }

    #[deprecated = "for a test"]
    #[telemetry_task]
    pub(super) fn old() -> u32 {
        1
    }
}

#[telemetry_task]
#[allow(unused_variables)]
fn lenient(a: u32) {
    let unused = a;
}

#[telemetry_task(skip_all)]
fn inside(a: u32) -> u32 {
    #![allow(unused_variables)]
    #![allow(clippy::all)]
    //! Documented from inside.
    let unused = 1;
    2
}

#[telemetry_task]
fn conditional(
    #[cfg(any())] missing: NoSuchType,
    #[cfg(all())] present: u32,
    #[allow(unused_variables)] unused: u32,
) -> u32 {
    present
}

#[cfg(any())]
#[telemetry_task]
fn absent() -> NoSuchType {}

#[telemetry_task]
#[cfg_attr(all(), must_use)]
fn counted() -> u32 {
    static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

#[telemetry_task(name = "main")]
#[tokio::test]
async fn runs() {
    assert_eq!(inner::answer(), 42);
    #[allow(deprecated)]
    let old = inner::old();
    assert_eq!(old, 1);
    lenient(1);
    assert_eq!(inside(1), 2);
    assert_eq!(conditional(3, 4), 3);
    assert_eq!((counted(), counted()), (0, 1));
}
