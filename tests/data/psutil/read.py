"""What psutil says of the machine and of a process, in the form of Flowcept's records.

Says "ready", then answers each line of its input with one line of JSON.
"""

import json
import sys

import psutil


def as_dict(values):
    """None on a machine without disks or interfaces."""
    return values and values._asdict()


def each(named):
    return {name: values._asdict() for name, values in (named or {}).items()}


def read(process):
    memory = process.memory_info()
    return {
        "cpu": {
            "times_avg": psutil.cpu_times()._asdict(),
            "times_per_cpu": [times._asdict() for times in psutil.cpu_times(percpu=True)],
            "percent_all": psutil.cpu_percent(),
            "percent_per_cpu": psutil.cpu_percent(percpu=True),
            "frequency": psutil.cpu_freq().current if psutil.cpu_freq() else None,
        },
        "process": {
            "pid": process.pid,
            "cpu_number": process.cpu_num(),
            "memory": memory._asdict(),
            "memory_percent": process.memory_percent(),
            "cpu_times": process.cpu_times()._asdict(),
            "cpu_percent": process.cpu_percent(),
            "executable": process.exe(),
            "cmd_line": process.cmdline(),
            "num_open_file_descriptors": process.num_fds(),
            "num_connections": len(process.net_connections()),
            "num_open_files": len(process.open_files()),
            "num_threads": process.num_threads(),
            "num_ctx_switches": process.num_ctx_switches()._asdict(),
            "io_counters": process.io_counters()._asdict(),
        },
        "memory": {
            "virtual": psutil.virtual_memory()._asdict(),
            "swap": psutil.swap_memory()._asdict(),
        },
        "disk": {
            "disk_usage": psutil.disk_usage("/")._asdict(),
            "io_sum": as_dict(psutil.disk_io_counters(nowrap=False)),
            "io_per_disk": each(psutil.disk_io_counters(perdisk=True, nowrap=False)),
        },
        "network": {
            "netio_sum": as_dict(psutil.net_io_counters(nowrap=False)),
            "netio_per_interface": each(psutil.net_io_counters(pernic=True, nowrap=False)),
        },
    }


process = psutil.Process(int(sys.argv[1]))
read(process)
print("ready", flush=True)
for _ in sys.stdin:
    print(json.dumps(read(process)), flush=True)
