"""What Stormlog's tracker of a process costs: prints nanoseconds of processor time, a tab, the case."""

import sys
import time

from stormlog.cpu_profiler import CPUMemoryTracker
from stormlog.telemetry_sink import TelemetrySinkConfig

sample, seconds, event, plain, count = sys.argv[1:]

tracker = CPUMemoryTracker(sampling_interval=0.1)
tracker.start_tracking()
time.sleep(0.25)


def samples():
    return sum(1 for event in list(tracker.events) if event.event_type == "sample")


seen, before = samples(), time.process_time_ns()
time.sleep(int(seconds))
spent, taken = time.process_time_ns() - before, samples() - seen
tracker.stop_tracking()
print(f"{spent / taken}\t{sample}")

for case, rollups in ((event, True), (plain, False)):
    config = TelemetrySinkConfig(
        root_dir="sink" if rollups else "plain",
        flush_every_events=50,
        flush_every_seconds=2.0,
        write_rollups=rollups,
    )
    tracker = CPUMemoryTracker(sampling_interval=3600, telemetry_sink_config=config)
    tracker.start_tracking()
    before = time.process_time_ns()
    for number in range(int(count)):
        tracker._add_event("sample", 0, "Collected telemetry sample.", metadata={"number": number}, rss=1 << 20)
    tracker.stop_tracking()
    print(f"{(time.process_time_ns() - before) / int(count)}\t{case}")
