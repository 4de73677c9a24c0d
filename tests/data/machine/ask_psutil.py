"""What psutil says of the machine and of the process whose number is given, as JSON."""

import getpass
import json
import platform
import socket
import sys

import psutil



def cores():
    """The cores that the kernel lists, by socket and number; None where it lists none."""
    found, socket = set(), None
    with open("/proc/cpuinfo") as file:
        for name, _, value in (line.partition(":") for line in file):
            if name.strip() == "physical id":
                socket = value.strip()
            elif name.strip() == "core id" and socket is not None:
                found.add((socket, value.strip()))
    return len(found) or None


process = psutil.Process(int(sys.argv[1]))
uname = platform.uname()
disk = psutil.disk_usage("/")._asdict()
interfaces = psutil.net_if_addrs()

json.dump(
    {
        "platform": {key: getattr(uname, key) for key in ("system", "node", "release", "version", "machine")},
        "memory": {"virtual": psutil.virtual_memory()._asdict(), "swap": psutil.swap_memory()._asdict()},
        "disk": disk,
        "network": {name: [address._asdict() for address in addresses] for name, addresses in interfaces.items()},
        "hostname": socket.gethostname(),
        "login_names": [getpass.getuser(), process.username()],
        "process": {
            "pid": process.pid,
            "executable": process.exe(),
            "cmd_line": process.cmdline(),
            "cwd": process.cwd(),
            "user_id": process.uids().real,
            "started_at": process.create_time(),
        },
        "affinity": len(process.cpu_affinity()),
        "cores": cores(),
        "booted_at": psutil.boot_time(),
    },
    sys.stdout,
)
