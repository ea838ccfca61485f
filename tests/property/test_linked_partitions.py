"""A linked partition is a beginning of one history of its source at all times, whatever happens to both clusters.

The rules are broken one by one, and each time some seed must notice.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla_broker.links import linked_partition
from ottla_broker.links.linked_partition import LinkedPartition
from ottla_broker.partition import Partition
from ottla_broker.replica.follower_replica import FetchPosition
from tests.support.broker.linked_partition_model import walk
from tests.support.replaced_rule import rule_replaced

SEEDS = 60
SEEDS_WHEN_BROKEN = 200


@pytest.mark.parametrize("seed", range(SEEDS))
def test_histories_are_never_mixed(tmp_path: Path, seed: int) -> None:
    walk(tmp_path, seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_partition_that_has_records_of_its_own_becomes_a_beginning_of_its_source(tmp_path: Path, seed: int) -> None:
    walk(tmp_path, seed, own_first=True)


@contextmanager
def without_last_fetched_epoch() -> Iterator[None]:
    real = LinkedPartition.fetch_position

    def position(self: LinkedPartition) -> FetchPosition:
        found = real(self)
        return FetchPosition(found.offset, -1, found.leader_epoch, found.log_start_offset)

    with rule_replaced(LinkedPartition, "fetch_position", position):
        yield


@contextmanager
def without_a_look_at_the_log_end() -> Iterator[None]:
    real = linked_partition.append_from_source

    def append(partition: Partition, records: Any, **how: Any) -> None:
        real(partition, records, **{**how, "end_offset": partition.log.log_end_offset})

    with rule_replaced(linked_partition, "append_from_source", append):
        yield


@contextmanager
def with_an_epoch_of_its_own_in_the_log() -> Iterator[None]:
    real = Partition.apply

    def apply(self: Partition, state: Any, *, leads: bool) -> None:
        real(self, state, leads=leads)
        if leads:
            self.log.start_leader_epoch(state.leader_epoch)

    with rule_replaced(Partition, "apply", apply):
        yield


@contextmanager
def without_refusing_clients() -> Iterator[None]:
    with rule_replaced(Partition, "check_takes_writes", lambda _self: None):
        yield


@contextmanager
def without_a_look_at_who_wrote_what_is_cut() -> Iterator[None]:
    with rule_replaced(Partition, "may_be_cut", True):
        yield


BROKEN: tuple[Callable[[], Any], ...] = (
    without_last_fetched_epoch,
    without_a_look_at_the_log_end,
    with_an_epoch_of_its_own_in_the_log,
    without_refusing_clients,
    without_a_look_at_who_wrote_what_is_cut,
)


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_rule_is_noticed(tmp_path: Path, broken: Callable[[], Any]) -> None:
    noticed = 0
    with broken():
        for seed in range(SEEDS_WHEN_BROKEN):
            directory = tmp_path / str(seed)
            directory.mkdir()
            try:
                walk(directory, seed, own_first=bool(seed % 2))
            except AssertionError:
                noticed += 1
                break
    assert noticed, f"nobody noticed in {SEEDS_WHEN_BROKEN} seeds"
