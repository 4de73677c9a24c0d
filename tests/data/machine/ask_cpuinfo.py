"""What py-cpuinfo says of the processors, as JSON."""

import json
import os
import sys

import cpuinfo

if __name__ == "__main__":
    # It would replace the number of processors.
    os.environ.pop("PYTHON_CPU_COUNT", None)
    json.dump(cpuinfo.get_cpu_info() | {"affinity": len(os.sched_getaffinity(0))}, sys.stdout)
