"""Lets cloudmesh's aggregator sum up a file: its summary, and the figures of each metric that is named, as JSON."""

import json
import sys

from cloudmesh.ai.common.aggregation import TelemetryAggregator

path, *metrics = sys.argv[1:]
aggregator = TelemetryAggregator(path)
figures = {name: aggregator.aggregate_metric(name) for name in metrics}
print(json.dumps({"summary": aggregator.get_summary(), "metrics": figures}))
