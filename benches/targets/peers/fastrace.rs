//! The crate `fastrace`, with a reporter that drops what it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use fastrace::trace;

struct Nowhere(Arc<AtomicU64>);

impl Reporter for Nowhere {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        self.0.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }
}

/// Calls under one root: only spans below a root are recorded, so their cost is told with a share of it.
const CALLS: u32 = 100;

/// Starts to record, and counts what came out.
pub(crate) fn start() -> Arc<AtomicU64> {
    let reported = Arc::new(AtomicU64::new(0));
    fastrace::set_reporter(Nowhere(Arc::clone(&reported)), Config::default());
    reported
}

/// Runs a batch of calls under roots of a hundred calls each.
pub(crate) fn under_roots(calls: u32, call: fn()) {
    for _ in 0..calls.div_ceil(CALLS) {
        let root = fastrace::Span::root("root", SpanContext::random());
        let _root = root.set_local_parent();
        for _ in 0..CALLS {
            call();
        }
    }
}

#[trace]
#[inline(never)]
pub(crate) fn leaf() {
    std::hint::black_box(());
}

#[trace]
#[inline(never)]
pub(crate) fn nested() {
    middle();
}

#[trace]
#[inline(never)]
fn middle() {
    leaf();
}
