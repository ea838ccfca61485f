"""What belongs to transactions in the log of a shard: appended with the owner's batch, once, and in order."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.partition import Partition
from ottla_core.errors import KafkaStorageError
from ottla_core.wire.control_records import TransactionMarker, marker_batch, read_marker
from ottla_core.wire.record_batch import iterate_batches
from ottla_core.wire.records import Record, encode_batch
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.support.broker.partition_logs import NOW_MS, batch_of, empty_batch
from tests.support.groups.group_cluster import PRODUCER_ID
from tests.unit.broker.groups.test_shard_log_access import Shard, code, of_owner

TRANSACTION = 70


@pytest.fixture
async def shard(tmp_path: Path) -> Shard:
    """Shard 0, fenced by an owner."""
    shard = Shard(tmp_path / "log")
    await shard.append(empty_batch(of_owner(0, 0)))
    return shard


def records(epoch: int, *values: bytes) -> bytes:
    return encode_batch(
        [Record(number, NOW_MS, b"key", value) for number, value in enumerate(values)],
        producer_id=TRANSACTION,
        producer_epoch=epoch,
        is_transactional=True,
    )


def marker(epoch: int, *, is_commit: bool = True, coordinator_epoch: int = 0) -> bytes:
    made = TransactionMarker(
        producer_id=TRANSACTION, producer_epoch=epoch, is_commit=is_commit, coordinator_epoch=coordinator_epoch
    )
    return marker_batch(made, NOW_MS)


async def append(shard: Shard, batch: bytes, *preceding: bytes) -> pb.LogAppended:
    answer = shard.access.append(pb.LogAppend(shard=0, batch=batch, preceding_batches=preceding))
    return answer if isinstance(answer, pb.LogAppended) else await answer


async def stored(shard: Shard) -> list[str]:
    """The batches behind the fence."""
    found = []
    for header, batch in iterate_batches((await shard.read(1)).batches):
        read = read_marker(batch, header)
        if read is not None:
            found.append(f"{'commit' if read.is_commit else 'abort'} {header.producer_epoch}")
        else:
            found.append(f"{'records' if header.is_transactional else 'own'} {header.record_count}")
    return found


async def test_they_are_appended_right_before_the_owners_batch(shard: Shard) -> None:
    answer = await append(shard, batch_of(b"x", producer=of_owner(0, 1)), records(0, b"a", b"b"), marker(1))
    assert (code(answer), answer.base_offset) == (ErrorCode.none, 4)
    assert await stored(shard) == ["records 2", "commit 1", "own 1"]
    assert shard.log.last_stable_offset == 5
    await append(shard, empty_batch(of_owner(0, 2)), records(1, b"c"))
    assert await stored(shard) == ["records 2", "commit 1", "own 1", "records 1", "own 0"]
    assert shard.log.last_stable_offset == 5, "a transaction is open"


async def test_an_append_that_comes_again_is_stored_once(shard: Shard) -> None:
    asked = [(empty_batch(of_owner(0, 1)), records(0, b"a")), (empty_batch(of_owner(0, 2)), marker(1))]
    offsets = [(await append(shard, *each)).base_offset for each in (*asked, *asked, asked[1])]
    assert offsets == [2, 4, 2, 4, 4]
    assert await stored(shard) == ["records 1", "own 0", "commit 1", "own 0"]


@pytest.mark.parametrize(
    ("batch", "refusal"),
    [
        (empty_batch(of_owner(0, 2)), ErrorCode.out_of_order_sequence_number),
        (empty_batch(of_owner(-1, 1)), ErrorCode.invalid_producer_epoch),
        (empty_batch((PRODUCER_ID - 1, 5, 1)), ErrorCode.invalid_producer_epoch),
        (b"", ErrorCode.corrupt_message),
    ],
)
async def test_without_the_owners_batch_none_of_them_is_appended(
    shard: Shard, batch: bytes, refusal: ErrorCode
) -> None:
    assert code(await append(shard, batch, records(0, b"a"), marker(1))) is refusal
    assert await stored(shard) == []


async def test_a_former_owner_appends_nothing_and_is_told_by_whom_it_was_replaced(shard: Shard) -> None:
    await shard.append(empty_batch(of_owner(3, 0)))
    late = await append(shard, empty_batch(of_owner(0, 1)), records(0, b"a"))
    assert code(late) is ErrorCode.invalid_producer_epoch
    assert await stored(shard) == ["own 0"]


async def test_too_few_replicas_keep_all_of_them_out(shard: Shard) -> None:
    shard.log.config = replace(shard.log.config, min_insync_replicas=2)
    shard.partition.apply(replace(shard.partition.state, replicas=(1, 2)), leads=True)
    refused = await append(shard, empty_batch(of_owner(0, 1)), records(0, b"a"))
    assert code(refused) is ErrorCode.not_enough_replicas
    assert shard.log.log_end_offset == 1


@pytest.mark.parametrize("written", [0, 1, 2])
async def test_what_the_disk_has_refused_in_between_is_appended_again_as_a_whole(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    asked = (empty_batch(of_owner(0, 1)), records(0, b"a"), records(0, b"b"))
    with monkeypatch.context() as full:
        fill_after(full, written)
        assert code(await append(shard, *asked)) is ErrorCode.kafka_storage_error
    assert await stored(shard) == ["records 1"] * written
    assert code(await append(shard, *asked)) is ErrorCode.none
    assert await stored(shard) == ["records 1"] * (written + 2) + ["own 0"]


def fill_after(monkeypatch: pytest.MonkeyPatch, appends: int) -> None:
    """Let so many batches be written, and then none."""
    append_one = Partition.append
    left = [appends]

    def append(partition: Partition, batch: bytes, **values: Any) -> Any:
        if not left[0]:
            raise KafkaStorageError("the disk is full")
        left[0] -= 1
        return append_one(partition, batch, **values)

    monkeypatch.setattr(Partition, "append", append)


async def test_a_marker_of_an_append_that_was_cut_off_is_taken_again(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(shard, empty_batch(of_owner(0, 1)), records(0, b"a"))
    asked = (empty_batch(of_owner(0, 2)), marker(1))
    with monkeypatch.context() as full:
        fill_after(full, 1)
        assert code(await append(shard, *asked)) is ErrorCode.kafka_storage_error
    assert code(await append(shard, *asked)) is ErrorCode.none
    assert await stored(shard) == ["records 1", "own 0", "commit 1", "commit 1", "own 0"]


@pytest.mark.parametrize(
    "refused",
    [records(3, b"c"), marker(3), marker(5, coordinator_epoch=1), batch_of(b"x", producer=of_owner(0, 0))],
    ids=["records", "marker", "coordinator", "no transaction"],
)
async def test_what_the_log_refuses_is_not_taken_for_the_loss_of_the_shard(shard: Shard, refused: bytes) -> None:
    await append(shard, empty_batch(of_owner(0, 1)), records(4, b"a"), marker(4, coordinator_epoch=2))
    answer = await append(shard, empty_batch(of_owner(0, 2)), refused)
    assert code(answer) is ErrorCode.invalid_record
    assert not answer.HasField("seen_producer_epoch")
    assert await stored(shard) == ["records 1", "commit 4", "own 0"]


@pytest.mark.parametrize(
    ("producer_id", "epoch", "coordinator_epoch"), [(-1, 0, 0), (TRANSACTION, -1, 0), (TRANSACTION, 0, -1)]
)
async def test_an_impossible_marker_is_refused_for_good(
    shard: Shard, producer_id: int, epoch: int, coordinator_epoch: int
) -> None:
    made = TransactionMarker(
        producer_id=producer_id, producer_epoch=epoch, is_commit=True, coordinator_epoch=coordinator_epoch
    )
    answer = await append(shard, empty_batch(of_owner(0, 1)), marker_batch(made, NOW_MS))
    assert code(answer) is ErrorCode.invalid_record
    assert await stored(shard) == []
