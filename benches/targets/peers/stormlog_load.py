"""Loads and validates a file of events with Stormlog; prints events a second of processor time, a tab, the case."""

import sys
import time

from stormlog.telemetry import load_telemetry_events

path, case, count = sys.argv[1:]
before = time.process_time()
events = load_telemetry_events(path)
spent = time.process_time() - before
assert len(events) == int(count), len(events)
print(f"{len(events) / spent}\t{case}")
