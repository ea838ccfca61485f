"""Replicas are compared batch by batch up to the high watermark, wherever their segments begin."""

from pathlib import Path

from tests.faults.replicas import Batch, batches_of, replica_batches, replica_problems
from tests.support.record_batches import batch_of


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
