"""Every small file of a log directory, missing, empty, cut short, garbage or stale: no record is lost for it."""

import random
from pathlib import Path

import pytest

from ottla_core.errors import ConfigurationError
from tests.support.broker.log_stores import FLIGHTS, TOPIC_ID, crash, store_in
from tests.support.broker.partition_logs import append, problems_in, read_values, small_segments

CONFIG = small_segments(file_delete_delay_ms=0)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "shutdown-record",
)
OF_A_PARTITION = ("leader-epoch-checkpoint", "*.index", "*.timeindex", "*.snapshot")
DAMAGES = ("missing", "empty", "cut short", "garbage", "stale")
SEEDS = range(1)


async def fill(directory: Path, first: int, count: int, epoch: int) -> None:
    async with store_in(directory, config=CONFIG) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        for number in range(first, first + count):
            append(log, b"%d" % number, leader_epoch=epoch, producer=(7, 0, number))


def files_of(directory: Path, name: str) -> list[Path]:
    return sorted(directory.glob(name) if name in CHECKPOINTS else (directory / str(FLIGHTS)).glob(name))


def damage(path: Path, how: str, former: dict[Path, bytes], chance: random.Random) -> None:
    data = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut short":
            path.write_bytes(data[: chance.randrange(len(data) or 1)])
        case "garbage":
            path.write_bytes(chance.randbytes(chance.randrange(1, 200)))
        case "stale" if path in former:
            path.write_bytes(former[path])


@pytest.mark.parametrize("was_clean", [True, False], ids=["after-a-clean-stop", "after-a-crash"])
@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", [*CHECKPOINTS, *OF_A_PARTITION])
async def test_a_damaged_small_file_costs_no_record(tmp_path: Path, name: str, how: str, was_clean: bool) -> None:
    for seed in SEEDS:
        directory = tmp_path / str(seed)
        chance = random.Random(f"{seed} {name} {how}")
        await fill(directory, 0, 15, epoch=1)
        former = {path: path.read_bytes() for path in files_of(directory, name)}
        await fill(directory, 15, 15, epoch=4)
        if not was_clean:
            crash(directory)
        for path in files_of(directory, name):
            damage(path, how, former, chance)
        async with store_in(directory, config=CONFIG) as store:
            log = store.logs[FLIGHTS]
            assert read_values(log) == [(number, b"%d" % number) for number in range(30)], f"seed {seed}"
            assert [log.leader_epochs.epoch_at(offset) for offset in (0, 14, 15, 29)] == [1, 1, 4, 4], f"seed {seed}"
            assert [entry.last_sequence for entry in log.active_producers()] == [29], f"seed {seed}"
            assert log.log_start_offset <= log.high_watermark <= 30
        assert problems_in(directory / str(FLIGHTS)) == [], f"seed {seed}"


@pytest.mark.parametrize("how", ["empty", "cut short", "garbage"])
async def test_a_directory_that_does_not_say_whose_it_is_is_refused_and_left_alone(tmp_path: Path, how: str) -> None:
    await fill(tmp_path, 0, 5, epoch=1)
    path = tmp_path / "meta.properties"
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "cut short": data[:5], "garbage": b"\xff\x00 garbage"}[how])
    with pytest.raises(ConfigurationError, match="belongs to cluster None"):
        await fill(tmp_path, 5, 1, epoch=1)
    path.write_bytes(data)
    async with store_in(tmp_path, config=CONFIG) as store:
        assert len(read_values(store.logs[FLIGHTS])) == 5
