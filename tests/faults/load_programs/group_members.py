"""Consumer groups of all protocols that read a topic and commit, until SIGTERM; then it notes what they were told.

The notes are a JSON object: `problems`, and `events`, the granted commits and the answers about committed offsets,
each as group, partition, offset, when it was asked for, when it was answered, and what it was.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.faults.access.client_access import add_access
from tests.support.groups.group_history import GroupHistory, ownership_problems
from tests.support.groups.group_load import SESSION_TIMEOUT_S, GroupLoad


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    add_access(parser)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    options = parser.parse_args()
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    load = GroupLoad(
        options.bootstrap,
        options.topic,
        partitions=options.partitions,
        groups=3,
        members_per_group=2,
        # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
        settings={"metadata.recovery.strategy": "none", **options.access.client_settings},
        connect=options.access.connect,
    )
    problems: list[str] = []
    with load:
        while not ending.wait(0.5):
            pass
        try:
            load.unstable(0.0)  # raises if a member has died
        except AssertionError as error:
            problems.append(f"a member of a group ended: {error}")
    problems += [f"{count} times {name}" for name, count in sorted(load.errors.items()) if "AUTH" in name]
    problems += ownership_problems(load.history, SESSION_TIMEOUT_S)
    options.notes.write_text(json.dumps({"problems": problems, "events": list(events_of(load.history))}))
    return 0


def events_of(history: GroupHistory) -> Iterator[tuple[str, int, int, float, float, str]]:
    """What `committed_offsets.py` judges."""
    for commit in history.commits:
        yield *commit.place, commit.offset, commit.asked_s, commit.granted_s, f"{commit.member} was granted"
    for reading in history.readings:
        yield *reading.place, reading.offset, reading.asked_s, reading.answered_s, "the watcher was told"


if __name__ == "__main__":
    sys.exit(main())
