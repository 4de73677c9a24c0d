//! Calls the whole API with the feature `capture` of `runlore` off: everything compiles and returns what it
//! should, annotated functions leave no record, tasks made by hand still do.
//!
//! ```text
//! cargo test -p capture-off
//! ```
//!
//! Build it alone. Together with a crate that turns the feature on, Cargo would turn it on here too.

pub mod annotated;

#[cfg(test)]
mod attribute;
#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod custom_store;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod training;

/// Runs a future that is always ready to go on.
#[cfg(test)]
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut waker) {
            return output;
        }
    }
}
