//! A program whose allocator counts: what the tracker, tasks and the profiler make of that.
//!
//! A crate of its own, because a program has one allocator.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::hint::black_box;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use runlore::alloc::{self, CountingAllocator};
    use runlore::profile::Profiler;
    use runlore::record::TaskObject;
    use runlore::store::MemoryStore;
    use runlore::tracker::{FlightRecorder, Tracker};
    use runlore::{carry, events, task};

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator::new(std::alloc::System);

    const MIB: u64 = 1 << 20;
    /// What recording itself may allocate inside a task, and more.
    const LITTLE: u64 = 64 << 10;

    fn take(bytes: u64) -> Vec<u8> {
        black_box(Vec::with_capacity(bytes as usize))
    }

    #[test]
    fn a_thread_counts_what_it_does_to_the_byte() {
        let before = alloc::thread_counts();
        let bytes = take(12_345);
        let made = alloc::thread_counts().since(before);
        assert_eq!((made.allocated_bytes, made.allocations, made.freed_bytes), (12_345, 1, 0));
        drop(bytes);
        let made = alloc::thread_counts().since(before);
        assert_eq!((made.freed_bytes, made.deallocations, made.change_bytes()), (12_345, 1, 0));
    }

    fn figure(task: &TaskObject, name: &str, of: &str) -> u64 {
        task.resources.as_ref().unwrap()[name][of].as_u64().unwrap()
    }

    #[test]
    fn tasks_tell_what_they_allocated() {
        let store = MemoryStore::new();
        let run = runlore::workflow("counting").store(store.clone()).start().unwrap();
        task("outer").run(|| {
            let kept = take(3 * MIB);
            task("inner").run(|| drop((take(5 * MIB), take(MIB))));
            std::thread::spawn(carry(|| task("elsewhere").run(|| drop(take(7 * MIB)))))
                .join()
                .unwrap();
            drop(kept);
        });
        run.finish().unwrap();
        let tasks = store.tasks();
        let the = |name: &str| {
            tasks.iter().find(|task| task.activity_id.as_deref() == Some(name)).unwrap()
        };
        let about = |found: u64, expected: u64, what: &str| {
            assert!(found.abs_diff(expected) < LITTLE, "{what}: {found} for {expected}");
        };
        if cfg!(target_os = "linux") {
            about(figure(the("inner"), "allocated_bytes", "self"), 6 * MIB, "inner");
            about(figure(the("inner"), "freed_bytes", "self"), 6 * MIB, "inner freed");
            about(
                figure(the("inner"), "allocated_peak_bytes", "inclusive"),
                6 * MIB,
                "inner's peak",
            );
            about(figure(the("outer"), "allocated_bytes", "self"), 3 * MIB, "outer by itself");
            about(figure(the("outer"), "allocated_bytes", "inclusive"), 16 * MIB, "outer in all");
            about(
                figure(the("outer"), "allocated_peak_bytes", "inclusive"),
                9 * MIB,
                "outer's peak",
            );
            assert!(figure(the("inner"), "allocations", "self") >= 2);
        }
    }

    #[test]
    fn a_scope_tells_what_it_allocated() {
        let profiler = Profiler::new();
        profiler.scope("work").run(|| drop(take(4 * MIB)));
        let result = &profiler.results()[0];
        let counted = result.allocator.unwrap();
        assert!((4 * MIB..4 * MIB + LITTLE).contains(&counted.peak_bytes), "{result:?}");
        assert!(counted.allocated_bytes >= 4 * MIB && counted.freed_bytes >= 4 * MIB, "{result:?}");
        assert!(profiler.summary().by_name["work"].allocated_bytes >= Some(4 * MIB));
    }

    #[test]
    fn a_tracker_samples_what_is_counted() {
        let tracker = Tracker::builder().interval(Duration::from_secs(3600)).start().unwrap();
        tracker.sample_now();
        let kept = take(200 * MIB);
        tracker.sample_now();
        let events = tracker.events();
        let sample = events.iter().rfind(|event| event.event_type == "sample").unwrap();
        assert_eq!(sample.allocator_active_bytes, sample.allocator_allocated_bytes);
        let statistics = tracker.stop().statistics;
        // Nothing was written to it, so none of it is resident.
        assert!(statistics.current_memory_allocated >= Some(200 * MIB), "{statistics:?}");
        assert!(statistics.total_allocation_bytes >= 190 * MIB, "{statistics:?}");
        assert_eq!(statistics.memory_capabilities["sampling_source"], "runlore.alloc");
        drop(kept);
    }

    #[test]
    fn an_allocation_that_fails_leaves_the_last_events() {
        let folder = tempfile::tempdir().unwrap();
        let tracker = Tracker::builder()
            .interval(Duration::from_secs(3600))
            .flight_recorder(FlightRecorder::new(folder.path()))
            .start()
            .unwrap();
        tracker.event("mark", "before it", [("step", 1)]);
        let mut too_much = Vec::<u8>::new();
        assert!(too_much.try_reserve_exact(1 << 55).is_err());
        // Whoever could not allocate was held up until this was written, or for two seconds, which a busy disk may need.
        let began = Instant::now();
        let dump = loop {
            if let Some(dump) = tracker.statistics().last_oom_dump_path {
                break PathBuf::from(dump);
            }
            assert!(began.elapsed() < Duration::from_secs(60), "there is no dump");
            std::thread::sleep(Duration::from_millis(5));
        };
        for _ in 0..3 {
            assert!(too_much.try_reserve_exact(1 << 55).is_err());
        }
        let loaded = events::load(&dump).unwrap();
        let events = &loaded.sessions[0].events;
        assert!(events.iter().any(|event| event.event_type == "mark"));
        let failed = events.iter().find(|event| event.event_type == "error").unwrap();
        assert_eq!(failed.metadata["requested_bytes"], 1_u64 << 55);
        let flight: serde_json::Value =
            serde_json::from_slice(&fs::read(dump.join("flight.json")).unwrap()).unwrap();
        assert_eq!(flight["details"]["kind"], "failure");
        assert!(tracker.stop().statistics.alert_count >= 1);
        assert!(dump.join("environment.json").exists());
        let dumps = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(dumps, 1, "a program that goes on without is not dumped again and again");
    }
}
