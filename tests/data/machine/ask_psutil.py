"""What psutil says of the machine and of the process whose number is given, as JSON."""

import getpass
import json
import platform
import socket
import sys

import psutil

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
        "cores": psutil.cpu_count(logical=False),
        "booted_at": psutil.boot_time(),
    },
    sys.stdout,
)
