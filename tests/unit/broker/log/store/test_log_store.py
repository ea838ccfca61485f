"""All logs of a broker: start, stop, crash, create, delete, duties, and who owns a directory."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from ottla_broker.log.directories.log_directory import parse_partition_directory, set_aside_name
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.log.files.partition_metadata import read_partition_metadata
from ottla_core.errors import ConfigurationError, KafkaStorageError
from ottla_core.topic_partition import TopicPartition
from tests.support.broker.log_stores import CONFIG, FLIGHTS, TOPIC_ID, crash, retire, store_in, until
from tests.support.broker.partition_logs import append, read_values, small_segments


async def test_a_log_survives_a_clean_stop_and_a_crash(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        append(log, b"one", producer=(5, 0, 0), leader_epoch=2)
    assert json.loads((tmp_path / ".kafka_cleanshutdown").read_text()) == {"version": 0, "brokerEpoch": -1}
    for was_clean in (True, False):
        if not was_clean:
            crash(tmp_path)
        async with store_in(tmp_path) as store:
            assert not (tmp_path / ".kafka_cleanshutdown").exists()
            found = store.get(FLIGHTS)
            assert found is not None
            assert (found.topic_id, found.high_watermark, found.log_end_offset) == (TOPIC_ID, 1, 1)
            assert read_values(found) == [(0, b"one")]
            assert found.recovery_point == 1
            assert found.leader_epochs.latest == 2
            assert [entry.producer_id for entry in found.active_producers()] == [5]


async def test_the_files_of_a_directory_are_kafkas(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nflights 3 1\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nflights 3 1\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    metadata = (tmp_path / "flights-3" / "partition.metadata").read_text()
    assert metadata == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    properties = dict(line.split("=", 1) for line in (tmp_path / "meta.properties").read_text().splitlines())
    assert properties.keys() == {"version", "cluster.id", "node.id", "directory.id"}
    assert (properties["version"], properties["node.id"]) == ("1", "1")


async def test_a_moved_log_start_survives_a_restart(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        for _ in range(4):
            append(log, b"v")
        log.delete_records_before(3)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nflights 3 3\n"
    async with store_in(tmp_path) as store:
        assert store.logs[FLIGHTS].log_start_offset == 3


async def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    async with store_in(first, second) as store:
        for number in range(6):
            await store.create(TopicPartition("t", number), TOPIC_ID, CONFIG, is_new=True)
        assert sorted(len(row.partition_sizes) for row in store.describe()) == [3, 3]
        assert len(set(store.directories.ids.values())) == 2
        ids = dict(store.directories.ids)
    async with store_in(first, second) as store:
        assert len(store.logs) == 6
        assert store.directories.ids == ids


async def test_creating_a_log_twice_gives_the_same(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        assert await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True) is log


async def test_a_deleted_log_is_renamed_and_then_removed(tmp_path: Path) -> None:
    slow = replace(CONFIG, file_delete_delay_ms=3_600_000)
    async with store_in(tmp_path) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, slow, is_new=True)
        append(log, b"v")
        await retire(store, FLIGHTS)
        assert store.get(FLIGHTS) is None
        (left,) = tmp_path.glob("flights-3*")
        assert left.name.endswith("-delete")
        again = await store.create(FLIGHTS, uuid4(), CONFIG, is_new=True)
        assert read_values(again) == []
        await retire(store, FLIGHTS)
        await until(lambda: len(list(tmp_path.glob("flights-3*"))) == 1)
    async with store_in(tmp_path):
        assert not list(tmp_path.glob("flights-3*")), "what was left is removed at the next start"


async def test_a_log_of_an_unknown_topic_is_kept_aside(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"precious")
        with capture_logs() as logs:
            await retire(store, FLIGHTS, LogDisposal.SET_ASIDE)
        assert [entry["log_level"] for entry in logs] == ["warning"]
    async with store_in(tmp_path) as store:
        assert store.get(FLIGHTS) is None
    (kept,) = tmp_path.glob("flights-3.*-stray")
    assert read_partition_metadata(kept) == TOPIC_ID
    assert (kept / f"{0:020d}.log").stat().st_size > 0


async def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    async with store_in(tmp_path):
        with pytest.raises(ConfigurationError, match="in use by another process"):
            async with store_in(tmp_path):
                pass
        script = (
            "import sys\nfrom pathlib import Path\n"
            "from ottla_broker.log.directories.log_directory import LogDirectory\n"
            "LogDirectory(Path(sys.argv[1])).open(node_id=1, cluster_id='cluster')\n"
        )
        ended = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=False
        )
        assert b"in use by another process" in ended.stderr
    async with store_in(tmp_path):
        pass


async def test_a_directory_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    async with store_in(tmp_path):
        pass
    with pytest.raises(ConfigurationError, match="belongs to cluster cluster, not other"):
        async with store_in(tmp_path, cluster_id="other"):
            pass
    properties = tmp_path / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(ConfigurationError, match="belongs to node 2, not 1"):
        async with store_in(tmp_path):
            pass


async def test_a_partition_in_two_directories_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for directory in (first, second):
        async with store_in(directory) as store:
            await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
    with pytest.raises(ConfigurationError, match="lies in two log directories"):
        async with store_in(first, second):
            pass


async def test_a_failed_directory_is_offline_and_the_others_serve(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    bad.write_text("a file where a directory should be")
    async with store_in(good, bad) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
        rows = {row.path.name: row for row in store.describe()}
        assert rows["good"].error is None
        assert rows["good"].partition_sizes[FLIGHTS] > 0
        assert rows["good"].total_bytes >= rows["good"].usable_bytes > 0
        assert "bad" in str(rows["bad"].error)
    with pytest.raises(ConfigurationError, match="None of the log directories"):
        async with store_in(bad):
            pass


async def test_a_log_that_cannot_be_created_leaves_nothing_behind(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        (tmp_path / "flights-3").write_text("in the way")
        with pytest.raises(KafkaStorageError, match="Cannot create flights-3"):
            await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)
        (tmp_path / "flights-3").unlink()
        await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True)


async def test_duties_run_by_themselves(tmp_path: Path) -> None:
    config = replace(small_segments(retention_ms=1, flush_ms=1), file_delete_delay_ms=0)
    async with store_in(
        tmp_path,
        later_ms=1000,
        retention_check_interval_ms=20,
        flush_check_interval_ms=20,
        recovery_point_checkpoint_interval_ms=20,
        high_watermark_checkpoint_interval_ms=20,
        producer_expiration_ms=1,
        producer_expiration_check_interval_ms=20,
    ) as store:
        log = await store.create(FLIGHTS, TOPIC_ID, config, is_new=True)
        for number in range(12):
            append(log, b"v" * 50, producer=(1, 0, number))
        await until(lambda: log.log_start_offset == 12)
        await until(lambda: log.recovery_point == 12)
        await until(lambda: not log.active_producers())
        for checkpoint in ("recovery-point", "replication"):
            path = tmp_path / f"{checkpoint}-offset-checkpoint"
            await until(lambda path=path: path.exists() and path.read_text().endswith("flights 3 12\n"))
        await until(lambda: not list(log.directory.glob("*.deleted")))


async def test_damaged_checkpoints_cost_no_data(tmp_path: Path) -> None:
    async with store_in(tmp_path) as store:
        append(await store.create(FLIGHTS, TOPIC_ID, CONFIG, is_new=True), b"v")
    for path in tmp_path.glob("*-checkpoint"):
        path.write_bytes(b"\xffgarbage")
    async with store_in(tmp_path) as store:
        assert read_values(store.logs[FLIGHTS]) == [(0, b"v")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flights-3", FLIGHTS),
        ("a-b-0", TopicPartition("a-b", 0)),
        ("__consumer_offsets-49", TopicPartition("__consumer_offsets", 49)),
        (f"flights-3.{'0a' * 16}-delete", None),
        (f"flights-3.{'0a' * 16}-stray", None),
        ("flights", None),
        ("flights-x", None),
        ("-3", None),
    ],
)
def test_directory_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_partition_directory(name) == expected


def test_the_name_of_a_deleted_log_fits_the_file_system() -> None:
    name = set_aside_name(TopicPartition("t" * 249, 12345), "-delete")
    assert len(name) == 255
    assert parse_partition_directory(name) is None
