//! The crate `tracing`.

use std::fs::File;

use tracing::Subscriber;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry, fmt};

super::functions!(#[tracing::instrument]);

/// A layer that looks at spans and does nothing: the registry behind it is the cost.
struct Nothing;

impl<S: Subscriber> Layer<S> for Nothing {}

/// Registers spans, and does nothing with them.
pub(crate) fn to_nothing() {
    set(Registry::default().with(Nothing));
}

/// The file that [`to_json`] writes.
pub(crate) const FILE: &str = "spans.json";

/// Writes each span that ends as JSON, by a thread in the background; nothing is dropped.
pub(crate) fn to_json() -> WorkerGuard {
    let file = File::create(FILE).expect("the file is made");
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).finish(file);
    set(Registry::default()
        .with(fmt::layer().json().with_span_events(FmtSpan::CLOSE).with_writer(writer)));
    guard
}

fn set(subscriber: impl Subscriber + Send + Sync) {
    tracing::subscriber::set_global_default(subscriber).expect("there is no other subscriber");
}
