"""Lets Stormlog say what it makes of records and files; a line of JSON for each.

compare.py records < lines of {"record": …, "permissive_legacy": …}
compare.py files FILE…
compare.py sessions FILE_OR_FOLDER…
"""

import dataclasses
import json
import sys

from stormlog.telemetry import (
    load_telemetry_events,
    load_telemetry_sessions,
    project_telemetry_event,
    telemetry_event_from_record,
    telemetry_event_to_dict,
)


def answer(what):
    try:
        result = {"ok": what()}
    except ValueError as error:
        result = {"error": str(error)}
    except Exception as error:
        result = {"exception": type(error).__name__}
    print(json.dumps(result))


def of_record(case):
    event = telemetry_event_from_record(case["record"], permissive_legacy=case["permissive_legacy"])
    return {"event": telemetry_event_to_dict(event), "record_id": project_telemetry_event(event).record_id}


if sys.argv[1] == "records":
    for line in sys.stdin.buffer:
        case = json.loads(line)
        answer(lambda: of_record(case))
elif sys.argv[1] == "sessions":

    def of_session(session):
        events = [telemetry_event_to_dict(event) for event in session.events]
        return {"session": dataclasses.asdict(session.summary), "events": events}

    for path in sys.argv[2:]:
        answer(lambda: [of_session(session) for session in load_telemetry_sessions(path)])
else:
    for path in sys.argv[2:]:
        answer(lambda: [telemetry_event_to_dict(event) for event in load_telemetry_events(path)])
