"""What py-cpuinfo says of the processors, as JSON."""

import json
import sys

import cpuinfo

if __name__ == "__main__":
    json.dump(cpuinfo.get_cpu_info(), sys.stdout)
