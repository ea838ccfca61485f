"""The model of an operator's topic finds what must be there and is not, and what is there and must not be."""

import pytest

from tests.faults.topic_model import PartitionModel, TopicModel, start_problems

A, B, C, LATE = b"a", b"b", b"c", b"late"


@pytest.fixture
def model() -> TopicModel:
    """Two acknowledged values, one in doubt, and one of an earlier life that was never answered."""
    model = TopicModel("life-0")
    model.begin_life(1)
    model.end_life()
    model.unanswered.add(LATE)
    model.begin_life(1)
    model.partitions[0].acknowledged.update({0: A, 1: B})
    model.partitions[0].doubtful.add(C)
    return model


@pytest.mark.parametrize("found", [[(0, A), (1, B)], [(0, A), (1, B), (2, C)], [(0, A), (1, B), (2, LATE)]])
def test_what_may_be_there_is_no_problem(model: TopicModel, found: list[tuple[int, bytes]]):
    assert list(model.content_problems(0, 0, len(found), found)) == []


@pytest.mark.parametrize(
    ("begins_at", "ends_at", "found", "problem"),
    [
        (0, 2, [(0, A), (1, C)], "lost: b'b', acknowledged in life-0-0 in its life 2 at 1; b'c' stands there"),
        (0, 1, [(0, A)], "life-0-0 in its life 2 ends at 1, below 2, which was acknowledged"),
        (1, 2, [(1, B)], "life-0-0 in its life 2 begins at 1; nobody deleted more than what is below 0"),
        (
            0,
            3,
            [(0, A), (1, B), (2, b"old")],
            "life-0-0 in its life 2 has b'old' at 2, which nobody wrote in this life",
        ),
        (0, 2, [(1, B), (0, A)], "life-0-0 in its life 2 is out of order: [1, 0]"),
    ],
)
def test_what_is_wrong_is_told(
    model: TopicModel, begins_at: int, ends_at: int, found: list[tuple[int, bytes]], problem: str
):
    assert problem in list(model.content_problems(0, begins_at, ends_at, found))


def test_what_was_deleted_may_be_gone(model: TopicModel):
    model.partitions[0].start_asked = 1
    assert list(model.content_problems(0, 1, 2, [(1, B)])) == []
    assert list(model.content_problems(0, 0, 2, [(0, A), (1, B)])) == []


def test_a_new_life_has_no_committed_offsets(model: TopicModel):
    assert list(model.offset_problems(0, -1, 1)) == []
    model.partitions[0].committed = 5
    model.begin_life(1)
    (problem,) = model.offset_problems(0, 5, 3)
    assert problem.startswith("broker 3 says that 5 is committed for life-0-0 in its life 3")


def test_a_commit_in_doubt_may_count(model: TopicModel):
    model.partitions[0].committed = 5
    model.partitions[0].committed_perhaps.add(7)
    model.unanswered_commits.add(3)
    assert [list(model.offset_problems(0, told, 1)) == [] for told in (3, 5, 7, -1)] == [True, True, True, False]


def test_deleted_records_stay_deleted_but_for_a_crash_of_two_brokers_right_afterwards():
    model = PartitionModel(start=9, start_s=100.0)
    assert start_problems(model, 9, [], 4.0) is None
    assert start_problems(model, 8, [101.0], 4.0) == "begins at 8 again, below 9, up to where records were deleted"
    assert start_problems(model, 8, [101.0, 103.0], 4.0) is None
    assert start_problems(model, 8, [101.0, 105.0], 4.0) is not None


def test_values_are_never_the_same():
    model = TopicModel("t")
    model.begin_life(1)
    first = model.new_values(3)
    model.begin_life(1)
    assert len({*first, *model.new_values(3)}) == 6
