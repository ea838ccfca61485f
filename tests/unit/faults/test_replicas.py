"""Replicas are compared batch by batch up to the high watermark, wherever their segments begin."""

import struct
from pathlib import Path

from tests.faults.replicas import Batch, batches_of, replica_batches, replica_problems, sequence_problems
from tests.support.messages.record_batches import batch_of


def batch(base_offset: int, *values: bytes) -> Batch:
    content = bytearray(batch_of(list(values)).encode())
    content[:8] = base_offset.to_bytes(8, "big")
    return Batch(base_offset, bytes(content))


FIRST, SECOND, THIRD = batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d", b"e")


def test_batches_are_read_from_all_segments(tmp_path: Path):
    (tmp_path / "00000000000000000000.log").write_bytes(FIRST.content + SECOND.content)
    (tmp_path / "00000000000000000003.log").write_bytes(THIRD.content + FIRST.content[:30])
    assert list(replica_batches(tmp_path)) == [FIRST, SECOND, THIRD]
    assert [each.next_offset for each in (FIRST, SECOND, THIRD)] == [2, 3, 5]


def test_a_file_that_ends_within_a_batch_gives_those_before():
    assert list(batches_of(FIRST.content + SECOND.content[:-1])) == [FIRST]


def test_equal_replicas_are_no_problem():
    replicas = {"broker-1": [FIRST, SECOND, THIRD], "broker-2": [FIRST, SECOND, THIRD]}
    assert list(replica_problems("t-0", replicas, 5)) == []


def test_what_lies_above_the_high_watermark_may_differ():
    replicas = {"broker-1": [FIRST, SECOND, THIRD], "broker-2": [FIRST, SECOND]}
    assert list(replica_problems("t-0", replicas, 3)) == []


def test_a_different_byte_is_a_problem():
    other = Batch(2, SECOND.content[:-1] + bytes([SECOND.content[-1] ^ 1]))
    (problem,) = replica_problems("t-0", {"broker-1": [FIRST, SECOND], "broker-2": [FIRST, other]}, 3)
    assert problem.startswith("t-0: broker-1 has 2..2")


def test_a_different_leader_epoch_is_a_problem():
    content = SECOND.content[:12] + (9).to_bytes(4, "big") + SECOND.content[16:]
    (problem,) = replica_problems("t-0", {"broker-1": [FIRST, SECOND], "broker-2": [FIRST, Batch(2, content)]}, 3)
    assert "of epoch 9" in problem


def test_a_replica_that_ends_too_early_is_a_problem():
    problems = list(replica_problems("t-0", {"broker-1": [FIRST, SECOND], "broker-2": [FIRST]}, 3))
    assert problems[0] == "t-0: the replica of broker-2 ends at 2, below the high watermark 3"


def written_by(producer_id: int, epoch: int, sequence: int, base: Batch) -> Batch:
    content = bytearray(base.content)
    struct.pack_into(">qhi", content, 43, producer_id, epoch, sequence)
    return Batch(base.base_offset, bytes(content))


def test_replicas_of_which_all_may_be_deleted_need_not_be_the_same():
    held = {"broker-1": [FIRST, SECOND], "broker-2": []}
    assert list(replica_problems("t-0", held, 4, begins_at=4)) == []
    assert list(replica_problems("t-0", held, 4, begins_at=2)) != []


def test_sequences_that_go_on_within_each_epoch_are_no_problem():
    batches = [written_by(7, 0, 0, FIRST), written_by(8, 0, 0, SECOND), written_by(7, 0, 2, THIRD)]
    assert list(sequence_problems("t-0", [*batches, written_by(7, 1, 0, batch(5, b"f"))])) == []


def test_a_batch_that_is_stored_twice_is_a_problem():
    (problem,) = sequence_problems("t-0", [written_by(7, 0, 0, FIRST), written_by(7, 0, 0, batch(2, b"a", b"b"))])
    assert problem.endswith("of producer 7 has sequence 0 instead of 2")


def test_a_batch_of_an_epoch_that_is_over_is_a_problem():
    batches = [written_by(7, 1, 0, FIRST), written_by(7, 0, 0, SECOND)]
    (problem,) = sequence_problems("t-0", batches)
    assert problem.endswith("comes from epoch 0 of producer 7 after a later one")
