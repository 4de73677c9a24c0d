//! Futures that keep their context whichever thread polls them.

use std::pin::Pin;
use std::task::{Context as Waker, Poll};

use pin_project_lite::pin_project;

use super::{Context, current};

/// Runs a future in a context: what `tokio::spawn` and its like need, which poll it elsewhere.
///
/// ```
/// use runlore::FutureExt as _;
///
/// # async fn fetch() {}
/// # #[tokio::main] async fn main() {
/// tokio::spawn(fetch().in_current()).await.unwrap();
/// # }
/// ```
pub trait FutureExt: Future + Sized {
    /// Runs the future in the context of the code that makes this call.
    fn in_current(self) -> InContext<Self> {
        self.in_context(current())
    }

    /// Runs the future in a context.
    fn in_context(self, context: Context) -> InContext<Self> {
        InContext { future: self, context }
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// A future in a context; made by [`FutureExt`].
    #[derive(Debug)]
    #[must_use = "a future does nothing until it is polled"]
    pub struct InContext<F> {
        #[pin]
        future: F,
        context: Context,
    }
}

impl<F: Future> Future for InContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<F::Output> {
        let this = self.project();
        this.context.run(|| this.future.poll(waker))
    }
}
