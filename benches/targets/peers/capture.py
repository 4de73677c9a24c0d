"""Times a complete capture by psutil or by Flowcept, in nanoseconds of this thread's processor time.

Prints a line a case: the median of the batches, a tab, the name of the case.
"""

import os
import socket
import statistics
import sys
import time

who, few, many = sys.argv[1:]
os.closerange(3, 1024)


def by_psutil():
    import psutil

    process = psutil.Process()

    def capture():
        psutil.cpu_times(), psutil.cpu_percent(), psutil.cpu_freq()
        psutil.cpu_times(percpu=True), psutil.cpu_percent(percpu=True)
        psutil.virtual_memory(), psutil.swap_memory()
        psutil.disk_usage("/"), psutil.disk_io_counters(), psutil.disk_io_counters(perdisk=True)
        psutil.net_io_counters(), psutil.net_io_counters(pernic=True)
        process.memory_info(), process.memory_percent(), process.cpu_times(), process.cpu_percent(), process.cpu_num()
        process.exe(), process.cmdline(), process.num_fds(), process.net_connections(), process.io_counters()
        process.open_files(), process.num_threads(), process.num_ctx_switches()

    return capture


def by_flowcept():
    types = ["cpu", "per_cpu", "process_info", "mem", "disk", "network"]
    with open("flowcept.yaml", "w") as file:
        file.write("project:\n  db_flush_mode: offline\ntelemetry_capture:\n  gpu: ~\n")
        file.writelines(f"  {one}: true\n" for one in types)
    os.environ["FLOWCEPT_SETTINGS_PATH"] = os.path.abspath("flowcept.yaml")
    from flowcept.flowceptor.telemetry_capture import TelemetryCapture

    capture = TelemetryCapture().capture
    captured = capture().to_dict()
    wanted = {"cpu", "process", "memory", "disk", "network"}
    if not wanted <= captured.keys():
        sys.exit(f"Flowcept captures only {list(captured)}")
    return capture


def measure(case, capture, calls):
    times = []
    for round in range(12):
        before = time.thread_time_ns()
        for _ in range(calls):
            capture()
        if round >= 2:
            times.append((time.thread_time_ns() - before) / calls)
    print(f"{statistics.median(times)}\t{case}")


capture = {"psutil": by_psutil, "flowcept": by_flowcept}[who]()
measure(few, capture, 10)
listener = socket.create_server(("127.0.0.1", 0), backlog=128)
held = [open(__file__) for _ in range(100)]
for _ in range(50):
    held.append(socket.create_connection(listener.getsockname()))
    held.append(listener.accept())
measure(many, capture, 2)
