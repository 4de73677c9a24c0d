//! Memory while a program runs: samples into a sink, alerts, phases, and what each part did to it.
//!
//! ```sh
//! cargo run --example track_memory --features events
//! runlore events stats track_memory/
//! ```

use std::time::Duration;

use runlore::alloc::CountingAllocator;
use runlore::profile::Profiler;
use runlore::tracker::{Alerts, FlightRecorder, Tracker};

// Optional: with it, samples and tasks tell what is allocated, and not only what is resident.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(std::alloc::System);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tracker = Tracker::builder()
        .interval(Duration::from_millis(10))
        .sink("track_memory")
        .alerts(Alerts::default().jump(64 << 20))
        .on_alert(|alert| eprintln!("! {alert}"))
        .flight_recorder(FlightRecorder::new("track_memory/dumps"))
        .start()?;

    let profiler = Profiler::new();
    let data = {
        let _phase = tracker.phase("load");
        profiler.scope("load").run(|| vec![0.5_f64; 10_000_000])
    };
    tracker.set_context("summing up");
    let sum: f64 = profiler.scope("sum").run(|| {
        let squares: Vec<f64> = data.iter().map(|value| value * value).collect();
        tracker.sample_now();
        squares.iter().sum()
    });

    for result in profiler.results() {
        let peak = result.allocator.map_or(0, |counted| counted.peak_bytes);
        println!("{}: {} MiB at once", result.name, peak >> 20);
    }
    let ended = tracker.stop();
    println!(
        "{sum}, {} events, peak {} MiB",
        ended.statistics.total_events,
        ended.statistics.peak_memory >> 20
    );
    Ok(())
}
