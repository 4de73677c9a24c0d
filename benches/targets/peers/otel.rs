//! OpenTelemetry's SDK with its batch processor and an exporter that drops what it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::Context;
use opentelemetry::trace::{Span, TraceContextExt, Tracer, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, SpanData, SpanExporter};

#[derive(Debug)]
struct Nowhere(Arc<AtomicU64>);

impl SpanExporter for Nowhere {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// A provider, and how many spans came out at its end.
pub(crate) struct Otel {
    provider: SdkTracerProvider,
    exported: Arc<AtomicU64>,
    pub(crate) tracer: SdkTracer,
}

impl Otel {
    pub(crate) fn new() -> Self {
        let exported = Arc::new(AtomicU64::new(0));
        let exporter = Nowhere(Arc::clone(&exported));
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
        let tracer = provider.tracer("bench");
        Self { provider, exported, tracer }
    }

    /// Ends it, and sees to it that everything arrived.
    pub(crate) fn finish(self, spans: u64) {
        self.provider.shutdown().expect("the provider ends");
        assert_eq!(self.exported.load(Ordering::Relaxed), spans, "spans exported");
    }
}

/// The cheapest span there is: begun and ended, never made the current one.
#[inline(never)]
pub(crate) fn leaf(tracer: &SdkTracer) {
    let mut span = tracer.start("leaf");
    std::hint::black_box(());
    span.end();
}

/// Three spans that know their parents.
#[inline(never)]
pub(crate) fn nested(tracer: &SdkTracer) {
    let _outer = Context::current_with_span(tracer.start("nested")).attach();
    middle(tracer);
}

#[inline(never)]
fn middle(tracer: &SdkTracer) {
    let _middle = Context::current_with_span(tracer.start("middle")).attach();
    leaf(tracer);
}
