"""The checker of linked partitions finds every byte that is not the source's."""

from dataclasses import replace

from tests.faults.history import Content
from tests.faults.mirrors.link_checker import content_problems, epoch_problem, prefix_problem, replica_problem
from tests.faults.replicas import Batch, batches_of
from tests.support.messages.record_batches import batch_of


def batches(*contents: tuple[int, str], epoch: int = 0) -> list[Batch]:
    """One batch for each base offset, with one value."""
    found: list[Batch] = []
    for offset, value in contents:
        encoded = replace(batch_of([value.encode()]), base_offset=offset, partition_leader_epoch=epoch).encode()
        found += batches_of(encoded)
    return found


SOURCE = batches((0, "a"), (1, "b"), (2, "c"))


def test_a_beginning_is_right_and_so_is_a_log_that_begins_later():
    for end in range(4):
        assert prefix_problem(SOURCE[:end], SOURCE, has_gaps=False) is None
    assert prefix_problem(SOURCE[1:], SOURCE, has_gaps=False) is None
    assert prefix_problem(SOURCE, SOURCE[2:], has_gaps=False) is None


def test_other_bytes_a_gap_and_what_lies_behind_the_source_are_found():
    assert prefix_problem([*SOURCE[:2], *batches((2, "x"))], SOURCE, has_gaps=False)
    assert prefix_problem([*SOURCE[:2], *batches((2, "c"), epoch=1)], SOURCE, has_gaps=False)
    assert prefix_problem([SOURCE[0], SOURCE[2]], SOURCE, has_gaps=False)
    assert prefix_problem(SOURCE, SOURCE[:2], has_gaps=False)


def test_where_retention_leaves_gaps_what_is_there_must_be_the_sources():
    assert prefix_problem([SOURCE[0], SOURCE[2]], SOURCE, has_gaps=True) is None
    assert prefix_problem([SOURCE[0], *batches((2, "x"))], SOURCE, has_gaps=True)
    assert prefix_problem(SOURCE, SOURCE[:2], has_gaps=True)


def test_one_replica_of_the_source_is_enough():
    assert replica_problem(SOURCE, {"b-1": SOURCE[:1], "b-2": SOURCE}) is None
    problem = replica_problem(SOURCE, {"b-1": SOURCE[:1], "b-2": batches((0, "x"))})
    assert problem is not None
    assert "b-1" in problem
    assert "b-2" in problem


def test_a_leader_epoch_below_that_of_a_record_is_found():
    log = [*SOURCE, *batches((3, "d"), epoch=2)]
    assert epoch_problem(log, 2) is None
    assert epoch_problem([], 0) is None
    assert epoch_problem(log, 1)


def test_contents_are_compared_by_offset() -> None:
    one, other = Content("k", 0, 1), Content("k", 1, 2)
    log = {0: one, 3: other}
    assert not list(content_problems("t-0", log, [(0, one), (3, other)], needed=[0, 3]))
    assert list(content_problems("t-0", log, [(0, other)], needed=[]))
    assert list(content_problems("t-0", log, [(1, one)], needed=[]))
    assert list(content_problems("t-0", log, [(0, one)], needed=[0, 3]))
