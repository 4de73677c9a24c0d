"""Lets Flowcept read a MongoDB database of ours and tells, as JSON, what it found there.

Usage: read_ours.py WORKFLOW CARD
"""

import ast
import contextlib
import json
import sys

workflow, card = sys.argv[1:]

# Flowcept may print; standard output is for the answer alone.
with contextlib.redirect_stdout(sys.stderr):
    from flowcept import Flowcept

    wanted = {"workflow_id": workflow}
    tasks = Flowcept.db.task_query(filter=wanted)
    errors = Flowcept.db.task_query(filter={**wanted, "status": "ERROR"}, projection=["task_id", "status"])
    newest = Flowcept.db.task_query(filter=wanted, sort=[("started_at", -1)], limit=2)
    summary = Flowcept.db.task_summary(wanted)
    workflows = Flowcept.db.workflow_query(filter=wanted)
    report = Flowcept.generate_report(workflow_id=workflow, output_path=card)

# Rows of the card's timing table: | activity | {'FINISHED': 1} | … |
activities = {}
with open(card, encoding="utf-8") as lines:
    table = lines.read().split("### Timing Report", 1)[1].split("\n### ", 1)[0]
for line in table.splitlines():
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) > 3 and cells[2].startswith("{"):
        activities[cells[1]] = ast.literal_eval(cells[2])

answer = {
    "statuses": {task["task_id"]: task["status"] for task in tasks},
    "dates": all(hasattr(task["started_at"], "isoformat") for task in tasks),
    "errors": [task["task_id"] for task in errors],
    "newest": [task["task_id"] for task in newest],
    "count": summary["count"],
    "status_counts": summary["status_counts"],
    "names": [found["name"] for found in workflows],
    "report_tasks": report["tasks"],
    "activities": activities,
}
print(json.dumps(answer))
