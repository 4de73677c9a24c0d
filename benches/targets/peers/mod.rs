//! The contenders: the same work under each of them.
//!
//! Every `leaf` is an empty function, and `nested` three of them inside each other.

pub(crate) mod fastrace;
pub(crate) mod otel;
pub(crate) mod ours;
pub(crate) mod plain;
pub(crate) mod tracing;

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Runs a future to its end by polling it: no runtime's cost is measured.
#[inline]
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

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

        $(#[$attribute])*
        #[inline(never)]
        pub(crate) async fn leaf_async() {
            std::hint::black_box(());
        }

        $(#[$attribute])*
        #[inline(never)]
        pub(crate) async fn leaf_yielding() {
            $crate::peers::Yield::default().await;
        }
    };
}
use functions;
