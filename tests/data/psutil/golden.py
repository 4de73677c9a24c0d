"""Writes machine/psutil.json: what psutil says of the files in machine/.

Run by hand, with psutil 7.2.2, when the files change: python golden.py
"""

import json
import pathlib

import psutil
import psutil._pslinux

folder = pathlib.Path(__file__).parent / "machine"
psutil.PROCFS_PATH = str(folder / "proc")
# psutil has no setting for where `/sys` is.
psutil._pslinux.is_storage_device = lambda name: (folder / "sys/block" / name.replace("/", "!")).exists()


def fields(named):
    return {name: values._asdict() for name, values in named.items()}


golden = {
    "cpu": {
        "times_avg": psutil.cpu_times()._asdict(),
        "times_per_cpu": [times._asdict() for times in psutil.cpu_times(percpu=True)],
    },
    "memory": {"virtual": psutil.virtual_memory()._asdict(), "swap": psutil.swap_memory()._asdict()},
    "disk": {
        "io_sum": psutil.disk_io_counters(nowrap=False)._asdict(),
        "io_per_disk": fields(psutil.disk_io_counters(perdisk=True, nowrap=False)),
    },
    "network": {
        "netio_sum": psutil.net_io_counters(nowrap=False)._asdict(),
        "netio_per_interface": fields(psutil.net_io_counters(pernic=True, nowrap=False)),
    },
}
(folder / "psutil.json").write_text(json.dumps(golden, indent=1) + "\n")
