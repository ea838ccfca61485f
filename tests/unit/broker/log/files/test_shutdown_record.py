"""Whether a log directory may have lost records since it was used last."""

from pathlib import Path

import pytest

from ottla_broker.log.directories.log_directory import LogDirectory
from ottla_broker.log.files import shutdown_record
from ottla_broker.log.files.shutdown_record import SHUTDOWN_RECORD, note_failed_fsync
from ottla_core.cluster.state.model import NO_EPOCH
from tests.support.broker.log_stores import store_in


@pytest.fixture
def boot_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for the kernel's."""
    path = tmp_path / "boot_id"
    path.write_text("first-boot\n")
    monkeypatch.setattr(shutdown_record, "BOOT_ID", path)
    return path


def use(path: Path, *, is_closed_cleanly: bool, registered_as: int | None = None) -> int:
    """Open a directory, register, and end; return since when the directory said that it was intact."""
    directory = LogDirectory(path)
    directory.open(node_id=1, cluster_id="cluster")
    intact_since = directory.intact_since
    if registered_as is not None:
        directory.registered(registered_as)
    if is_closed_cleanly:
        directory.mark_clean()
    directory.close()
    return intact_since


def test_the_end_of_a_process_loses_nothing(tmp_path: Path, boot_id: Path) -> None:
    assert boot_id.exists()
    assert [use(tmp_path / "d", is_closed_cleanly=False, registered_as=epoch) for epoch in (5, 6, 7)] == [0, 0, 0]


def test_another_boot_after_a_clean_stop_loses_nothing(tmp_path: Path, boot_id: Path) -> None:
    use(tmp_path / "d", is_closed_cleanly=True, registered_as=5)
    boot_id.write_text("second boot")
    assert use(tmp_path / "d", is_closed_cleanly=False) == 0


def test_another_boot_without_a_clean_stop_may_have_lost_records(tmp_path: Path, boot_id: Path) -> None:
    use(tmp_path / "d", is_closed_cleanly=False, registered_as=5)
    boot_id.write_text("second boot")
    assert use(tmp_path / "d", is_closed_cleanly=False) == NO_EPOCH
    assert use(tmp_path / "d", is_closed_cleanly=True) == NO_EPOCH, "it was not registered in between"
    assert use(tmp_path / "d", is_closed_cleanly=False, registered_as=9) == NO_EPOCH
    assert use(tmp_path / "d", is_closed_cleanly=True, registered_as=11) == 9
    assert use(tmp_path / "d", is_closed_cleanly=True, registered_as=12) == 9


@pytest.mark.parametrize("content", [None, "", "boot.id=first-boot", "boot.id=first-boot\nintact.since=x", "\0\0"])
def test_a_record_that_is_missing_or_damaged_is_taken_for_another_boot(
    tmp_path: Path, boot_id: Path, content: str | None
) -> None:
    assert boot_id.exists()
    use(tmp_path / "d", is_closed_cleanly=False, registered_as=5)
    if content is None:
        (tmp_path / "d" / SHUTDOWN_RECORD).unlink()
    else:
        (tmp_path / "d" / SHUTDOWN_RECORD).write_text(content)
    assert use(tmp_path / "d", is_closed_cleanly=False) == NO_EPOCH


def test_a_failed_fsync_may_have_lost_records_under_the_same_boot(tmp_path: Path, boot_id: Path) -> None:
    assert boot_id.exists()
    use(tmp_path / "d", is_closed_cleanly=False, registered_as=5)
    note_failed_fsync(tmp_path / "d")
    assert use(tmp_path / "d", is_closed_cleanly=False) == NO_EPOCH
    assert use(tmp_path / "d", is_closed_cleanly=False, registered_as=9) == NO_EPOCH, "nobody has heard of it"
    assert use(tmp_path / "d", is_closed_cleanly=False) == 9, "it is told once"


def test_a_directory_that_takes_no_note_of_a_failed_fsync_ends_nothing(tmp_path: Path) -> None:
    note_failed_fsync(tmp_path / "away")


def test_a_machine_without_a_boot_id_asks_for_clean_stops(tmp_path: Path, boot_id: Path) -> None:
    boot_id.unlink()
    use(tmp_path / "d", is_closed_cleanly=True)
    assert use(tmp_path / "d", is_closed_cleanly=False) == 0
    assert use(tmp_path / "d", is_closed_cleanly=False) == NO_EPOCH


async def test_a_store_is_as_intact_as_the_worst_of_its_directories(tmp_path: Path, boot_id: Path) -> None:
    paths = tmp_path / "one", tmp_path / "other"
    async with store_in(*paths) as store:
        assert store.directories.intact_since == 0
    (paths[1] / ".kafka_cleanshutdown").unlink()
    boot_id.write_text("second boot")
    async with store_in(*paths) as store:
        assert store.directories.intact_since == NO_EPOCH
        await store.directories.registered(20)
        assert store.directories.intact_since == 20
    async with store_in(*paths) as store:
        assert store.directories.intact_since == 20


def test_a_record_of_a_later_version_counts_as_the_worst(tmp_path: Path, boot_id: Path) -> None:
    use(tmp_path / "d", is_closed_cleanly=False, registered_as=5)
    record = tmp_path / "d" / SHUTDOWN_RECORD
    assert record.read_text().startswith("version=1\n")
    record.write_text(record.read_text().replace("version=1", "version=2"))
    assert boot_id.exists()
    assert use(tmp_path / "d", is_closed_cleanly=False) == NO_EPOCH


def test_after_a_recovery_of_the_state_what_was_counted_before_is_forgotten(tmp_path: Path, boot_id: Path) -> None:
    """etcd counts epochs anew: a broker that registered as 500 would count as unclean at every start until then."""
    path = tmp_path / "d"
    use(path, is_closed_cleanly=False)
    boot_id.write_text("second-boot\n")
    use(path, is_closed_cleanly=False, registered_as=500)

    def start(recovery: int, registered_as: int) -> int:
        directory = LogDirectory(path)
        directory.open(node_id=1, cluster_id="cluster", recovery=recovery)
        intact_since = directory.intact_since
        directory.registered(registered_as)
        directory.close()
        return intact_since

    assert start(0, 600) == 500
    assert [start(7, epoch) for epoch in (12, 13)] == [0, 0]
    boot_id.write_text("third-boot\n")
    assert start(7, 20) == NO_EPOCH
    assert [start(7, 21), start(8, 3)] == [20, 0]


def test_an_unclean_shutdown_that_nobody_was_told_of_outlives_a_recovery(tmp_path: Path, boot_id: Path) -> None:
    path = tmp_path / "d"
    use(path, is_closed_cleanly=False)
    boot_id.write_text("second-boot\n")
    use(path, is_closed_cleanly=False)
    directory = LogDirectory(path)
    directory.open(node_id=1, cluster_id="cluster", recovery=7)
    assert directory.intact_since == NO_EPOCH
    directory.close()


def test_an_epoch_that_a_restored_etcd_has_not_reached_again_is_replaced(tmp_path: Path, boot_id: Path) -> None:
    path = tmp_path / "d"
    use(path, is_closed_cleanly=False)
    boot_id.write_text("second-boot\n")
    use(path, is_closed_cleanly=False, registered_as=500)
    assert use(path, is_closed_cleanly=False, registered_as=300) == 500  # the controller decides by that once more
    assert use(path, is_closed_cleanly=False, registered_as=301) == 300
