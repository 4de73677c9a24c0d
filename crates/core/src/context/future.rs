//! Futures that keep their context on whichever thread polls them.

use std::pin::Pin;
use std::task::{Context as Waker, Poll};

use pin_project_lite::pin_project;

use super::{Context, current};

/// Runs a future in a context. `tokio::spawn` and the like need this, because they may poll the
/// future on another thread.
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
    /// Runs the future in the caller's current context.
    fn in_current(self) -> InContext<Self> {
        self.in_context(current())
    }

    /// Runs the future in the given context.
    fn in_context(self, context: Context) -> InContext<Self> {
        InContext { future: self, context }
    }
}

impl<F: Future> FutureExt for F {}

pin_project! {
    /// A future that runs in a context. Made by [`FutureExt`].
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
