"""Lets Flowcept read a JSONL file and tells, as JSON, what it found there.

Usage: read_ours.py FILE CARD
"""

import ast
import contextlib
import json
import sys

path, card = sys.argv[1:]

# Flowcept may print; standard output is for the answer alone.
with contextlib.redirect_stdout(sys.stderr):
    from flowcept import Flowcept

    records = Flowcept.read_buffer_file(path)
    report = Flowcept.generate_report(input_jsonl_path=path, output_path=card)

# Rows of the card's timing table: | activity | {'FINISHED': 1} | … |
activities = {}
with open(card, encoding="utf-8") as lines:
    table = lines.read().split("### Timing Report", 1)[1].split("\n### ", 1)[0]
for line in table.splitlines():
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) > 3 and cells[2].startswith("{"):
        activities[cells[1]] = ast.literal_eval(cells[2])

answer = {
    "task_ids": [record["task_id"] for record in records if record.get("type") == "task"],
    "workflow_statuses": [record["status"] for record in records if record.get("type") == "workflow"],
    "report_tasks": report["tasks"],
    "skipped_lines": report["skipped_lines"],
    "activities": activities,
}
print(json.dumps(answer))
