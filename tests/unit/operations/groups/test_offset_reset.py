"""Where a reset puts a group."""

from dataclasses import replace

import pytest

from ottla_operations.groups.offset_reset import NothingCommitted, PartitionOffsets, Reset, Target, plan_reset

PARTITION = PartitionOffsets(topic="flights", partition=0, committed=40, first=10, end=100, at_time=70)
UNTOUCHED = replace(PARTITION, partition=1, committed=None, at_time=None)


@pytest.mark.parametrize(
    ("reset", "new", "new_without_commit"),
    [
        (Reset(Target.EARLIEST), 10, 10),
        (Reset(Target.LATEST), 100, 100),
        (Reset(Target.OFFSET, 50), 50, 50),
        (Reset(Target.TIME_MS, 1_357_034_400_000), 70, 100),
        (Reset(Target.CURRENT), 40, 100),
    ],
)
def test_every_target_has_its_offset(reset, new, new_without_commit):
    assert [each.new for each in plan_reset(reset, [PARTITION, UNTOUCHED])] == [new, new_without_commit]


@pytest.mark.parametrize(("count", "new", "wanted"), [(5, 45, 45), (-5, 35, 35), (-40, 10, 0), (1000, 100, 1040)])
def test_a_shift_counts_from_the_committed_offset_and_stays_within_the_partition(count, new, wanted):
    (planned,) = plan_reset(Reset(Target.SHIFT, count), [PARTITION])
    assert (planned.new, planned.wanted) == (new, wanted)


@pytest.mark.parametrize(("offset", "new"), [(0, 10), (10, 10), (100, 100), (101, 100)])
def test_an_offset_that_is_not_there_becomes_the_nearest(offset, new):
    (planned,) = plan_reset(Reset(Target.OFFSET, offset), [PARTITION])
    assert (planned.new, planned.wanted) == (new, offset)


def test_a_committed_offset_that_has_been_deleted_meanwhile_is_moved_to_the_first_there_is():
    (planned,) = plan_reset(Reset(Target.CURRENT), [replace(PARTITION, committed=3)])
    assert planned.new == 10


def test_a_shift_without_a_committed_offset_is_refused_with_the_partitions():
    with pytest.raises(NothingCommitted, match="no committed offset to shift in flights-1"):
        plan_reset(Reset(Target.SHIFT, 1), [PARTITION, UNTOUCHED])
