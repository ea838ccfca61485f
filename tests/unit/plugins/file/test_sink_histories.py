"""Random histories of a sink: puts, repetitions, commits, rebalances, crashes. Every record is in one file, once."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from ottla_file import FileSink
from ottla_sdk.conformance import SinkRun, sink_records
from ottla_sdk.records import TopicPartition

STEPS = 50
RECORDS = sink_records(list(range(300)), topic="a-1", partitions=3)


def settings(directory: Path, chance: random.Random) -> dict[str, str]:
    return {
        "file.directory": str(directory),
        "file.roll.rows": str(chance.randint(1, 12)),
        "file.roll.ms": chance.choice(["1", "3600000"]),
        "file.fsync": "false",
    }


def rows(directory: Path) -> list[int]:
    finished = [path for path in directory.rglob("*.jsonl") if ".unfinished" not in path.parts]
    return [json.loads(line) for path in finished for line in path.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_in_one_finished_file_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    committed: dict[TopicPartition, int] = {}

    def started() -> SinkRun:
        run = SinkRun(FileSink, settings(tmp_path, chance), RECORDS, committed=committed)
        run.__enter__()
        return run

    run = started()
    for _ in range(STEPS):
        step = chance.random()
        batch = run.next_records(chance.randint(1, 20))
        if step < 0.6:
            run.put(batch)
        elif step < 0.7:
            run.task.put(batch[: chance.randint(0, len(batch))])  # cut short, and put again later
        elif step < 0.85:
            run.commit()
        elif step < 0.92:
            partition = chance.choice(RECORDS).origin
            run.close([partition])
            run.open([partition])
        else:
            committed = {partition: offset for partition, offset in run.committed.items() if chance.random() < 0.7}
            if chance.random() < 0.5:
                run.crash()  # otherwise it was killed, and cleans nothing up
            run = started()
        assert max(Counter(rows(tmp_path)).values(), default=0) <= 1
    run.put_all()
    for partition in list(run.task._runs):
        run.task._finish(partition)
    run.crash()

    assert Counter(rows(tmp_path)) == Counter(range(300))
