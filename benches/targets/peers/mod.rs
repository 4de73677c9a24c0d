//! The contenders: the same work under each of them.
//!
//! Every `leaf` is an empty function, and `nested` three of them inside each other.

pub(crate) mod bare;
pub(crate) mod fastrace;
pub(crate) mod gpu;
pub(crate) mod otel;
pub(crate) mod ours;
pub(crate) mod plain;
pub(crate) mod python;
pub(crate) mod telemetry;
pub(crate) mod tracing;

use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs a future to its end by polling it: no runtime's cost is measured. A macro, so that the future is made where
/// it is polled and never moved.
macro_rules! block_on {
    ($future:expr) => {{
        let mut future = std::pin::pin!($future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while future.as_mut().poll(&mut context).is_pending() {}
    }};
}
pub(crate) use block_on;

/// A future that is pending once.
#[derive(Debug, Default)]
pub(crate) struct Yield {
    yielded: bool,
}

impl Future for Yield {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The annotated functions of a contender: the same text under each attribute.
macro_rules! functions {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        #[inline(never)]
        pub(crate) fn leaf() {
            std::hint::black_box(());
        }

        $(#[$attribute])*
        #[inline(never)]
        pub(crate) fn nested() {
            middle();
        }

        $(#[$attribute])*
        #[inline(never)]
        fn middle() {
            leaf();
        }

        // No `inline(never)`: that would only keep the future from being made where it is polled.
        $(#[$attribute])*
        pub(crate) async fn leaf_async() {
            std::hint::black_box(());
        }

        $(#[$attribute])*
        pub(crate) async fn leaf_yielding() {
            $crate::peers::Yield::default().await;
            std::hint::black_box(());
        }
    };
}
use functions;
