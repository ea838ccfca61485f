"""The check of who wrote a shard finds late writers."""

from dataclasses import replace
from pathlib import Path

import pytest

from ottla_core.wire.record_batch import TRANSACTIONAL_FLAG
from tests.support.groups.producer_epochs import Owner, owner_problems, producer_epoch_problems
from tests.support.messages.record_batches import batch_of

FIRST, SECOND, THIRD = Owner(1, 0), Owner(1, 1), Owner(7, 0)


def problems(*owners: Owner) -> list[str]:
    return list(owner_problems(enumerate(owners)))


def test_one_owner_after_the_other_is_fine() -> None:
    assert problems() == []
    assert problems(FIRST, FIRST, SECOND, SECOND, THIRD) == []


def test_an_owner_that_was_replaced_must_not_write_again() -> None:
    (problem,) = problems(FIRST, SECOND, FIRST, FIRST)
    assert problem.startswith("offset 2 was written by")
    assert len(problems(FIRST, SECOND, THIRD, SECOND, FIRST)) == 2


def test_owners_are_read_from_segment_files_in_their_order(tmp_path: Path) -> None:
    def batch(owner: Owner, offset: int) -> bytes:
        made = replace(batch_of([b"x"]), producer_id=owner.producer_id, producer_epoch=owner.producer_epoch)
        return replace(made, base_offset=offset, base_sequence=0).encode()

    shard = tmp_path / "broker-1" / "__consumer_offsets-3"
    shard.mkdir(parents=True)
    (shard / f"{0:020}.log").write_bytes(batch(FIRST, 0) + batch(SECOND, 1))
    assert producer_epoch_problems(tmp_path) == []
    (shard / f"{2:020}.log").write_bytes(batch(FIRST, 2))
    (problem,) = producer_epoch_problems(tmp_path)
    assert problem.startswith("__consumer_offsets-3: offset 2 was written by")


def test_producers_of_transactions_are_no_owners(tmp_path: Path) -> None:
    shard = tmp_path / "__consumer_offsets-3"
    shard.mkdir()
    owner, other = (replace(batch_of([b"x"]), producer_id=id_, producer_epoch=0, base_sequence=0) for id_ in (1, 70))
    transactional = replace(other, attributes=TRANSACTIONAL_FLAG)
    written = [replace(each, base_offset=number) for number, each in enumerate((owner, transactional, owner))]
    (shard / f"{0:020}.log").write_bytes(b"".join(each.encode() for each in written))
    assert producer_epoch_problems(tmp_path) == []


def test_a_directory_without_shards_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no shard has been written to"):
        producer_epoch_problems(tmp_path)
