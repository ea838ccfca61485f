"""What a log store does by itself goes on, whatever happens to one of its duties."""

from pathlib import Path

import pytest

from ottla_broker.log.log_duties import LogDuties
from ottla_core import background
from ottla_core.background import failures
from tests.support.log_stores import store_in, until

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
