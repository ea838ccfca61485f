"""Leader epochs: what Kafka's LeaderEpochFileCache answers."""

from pathlib import Path

import pytest

from ottla_broker.log.files.leader_epoch_checkpoint import (
    EpochEntry,
    LeaderEpochs,
    read_leader_epochs,
    write_leader_epochs,
)
from ottla_core.errors import CorruptMessage


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(7, 30)])


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 30)), (6, (4, 30)),
     (7, (7, 55)), (8, (-1, -1))],
)  # fmt: skip
def test_an_epoch_ends_where_the_next_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(asked, 55) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert LeaderEpochs().end_offset_for(0, 0) == (-1, -1)
    assert LeaderEpochs().latest == -1


def test_an_epoch_without_records_gives_way_to_the_next(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 30)
    assert epochs.entries[-1] == (9, 30)
    assert epochs.entries[-2] == (4, 20)


def test_assigning_the_latest_epoch_again_changes_nothing(epochs: LeaderEpochs) -> None:
    epochs.assign(7, 44)
    assert epochs.entries[-1] == (7, 30)
    assert not epochs.is_dirty


def test_truncation_from_either_end(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(30)
    assert epochs.latest == 4
    epochs.truncate_from_start(25, 30)
    assert epochs.entries == ((4, 25),)
    epochs.truncate_from_end(25)
    assert epochs.entries == ()


def test_of_an_emptied_log_the_epoch_of_its_last_record_is_known_apart_from_one_without_records(
    epochs: LeaderEpochs,
) -> None:
    epochs.truncate_from_start(30, 30)
    assert epochs.entries == ((4, 29), (7, 30))
    epochs.truncate_from_end(30)
    assert epochs.entries == ((4, 29),)
    epochs.truncate_from_start(30, 30)
    assert epochs.entries == ((4, 29),)
    epochs.assign(8, 30)
    epochs.truncate_from_start(31, 32)
    assert epochs.entries == ((8, 31),)


def test_an_empty_log_that_begins_at_0_has_no_epoch_before() -> None:
    epochs = LeaderEpochs()
    epochs.assign(3, 0)
    epochs.truncate_from_start(0, 0)
    assert epochs.entries == ((3, 0),)


def test_epoch_at_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 4, 7]


def test_the_file_is_kafkas_and_comes_back(tmp_path: Path, epochs: LeaderEpochs) -> None:
    write_leader_epochs(tmp_path, epochs.entries)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n2 10\n4 20\n7 30\n"
    assert read_leader_epochs(tmp_path).entries == epochs.entries


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\n1 1\n", "0\n1\n1\n", "0\n1\nx y\n", "0", "\0\0\0"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    with pytest.raises(CorruptMessage):
        read_leader_epochs(tmp_path)
