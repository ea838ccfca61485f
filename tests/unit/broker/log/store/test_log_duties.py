"""What a log store does by itself goes on, whatever happens to one of its duties."""

from pathlib import Path

import pytest

from ottla_broker.log.store.log_duties import LogDuties
from ottla_core import background
from ottla_core.background import failures
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import CONFIG, TOPIC_ID, store_in, until
from tests.support.broker.partition_logs import append

CONSTANTLY_MS = 1


async def test_an_unexpected_exception_ends_neither_the_other_duties_nor_for_good_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "PAUSE_S_MIN", 0.001)
    retentions = checkpoints = 0

    async def enforce_retention(_: LogDuties) -> None:
        nonlocal retentions
        retentions += 1
        if retentions <= 2:
            raise RuntimeError("a defect")

    async def checkpoint_high_watermarks(_: LogDuties) -> None:
        nonlocal checkpoints
        checkpoints += 1

    monkeypatch.setattr(LogDuties, "enforce_retention", enforce_retention)
    monkeypatch.setattr(LogDuties, "checkpoint_high_watermarks", checkpoint_high_watermarks)
    before = failures["log duty"]
    async with store_in(
        tmp_path, retention_check_interval_ms=CONSTANTLY_MS, high_watermark_checkpoint_interval_ms=CONSTANTLY_MS
    ):
        await until(lambda: retentions > 3)
        assert failures["log duty"] == before + 2
        seen = checkpoints
        await until(lambda: checkpoints > seen)


@pytest.mark.parametrize(
    ("duty", "refused", "written"),
    [
        ("checkpoint_recovery_points", "recovery-point", {"recovery-point": 3, "log-start": 2}),
        ("checkpoint_high_watermarks", "replication", {"replication": 3}),
    ],
)
async def test_a_disk_that_refuses_checkpoints_keeps_none_from_those_of_another_disk(
    tmp_path: Path, duty: str, refused: str, written: dict[str, int]
) -> None:
    """Else what was deleted there would be back after a crash, and all of it would be recovered."""
    first, second = tmp_path / "a", tmp_path / "b"
    async with store_in(first, second) as store:
        for number in range(2):
            log = await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG, is_new=True)
            append(log, b"v", b"w", b"x")
            log.flush()
            log.delete_records_before(2)
        (there,) = [log for log in store.logs.values() if log.directory.parent == second]
        path = first / f"{refused}-offset-checkpoint"
        path.unlink(missing_ok=True)
        path.mkdir()  # no file can take its place

        with pytest.raises(IsADirectoryError):
            await getattr(store._duties, duty)()

        for name, offset in written.items():
            line = f"t {there.topic_partition.partition} {offset}\n"
            assert line in (second / f"{name}-offset-checkpoint").read_text()
