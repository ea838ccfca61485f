"""Lists of groups, and the partitions and members of one."""

import pytest

from ottla_console.views.exact_pattern import exact_pattern
from ottla_console.views.group_partitions import known_lag, lag_rows, member_rows
from ottla_console.views.group_table import GroupQuery, group_rows, selected_groups, state_grade, states_of, total_lag
from ottla_operations.groups.inspection import Group, GroupSummary, Member, Partition
from ottla_operations.groups.several import GroupStanding

LISTED = [
    GroupSummary(group="billing", state="stable", type="classic"),
    GroupSummary(group="Billing.eu", state="empty", type="classic"),
    GroupSummary(group="audit", state="empty", type="consumer"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (GroupQuery(), ["Billing.eu", "audit", "billing"]),
        (GroupQuery(words="BILL"), ["Billing.eu", "billing"]),
        (GroupQuery(words="bill eu"), ["Billing.eu"]),
        (GroupQuery(state="empty"), ["Billing.eu", "audit"]),
        (GroupQuery(state="rubbish"), []),
    ],
)
def test_groups_are_searched_and_filtered_by_state(query: GroupQuery, expected: list[str]) -> None:
    assert [each.group for each in selected_groups(LISTED, query)] == expected


def test_the_states_to_choose_from_are_those_that_there_are() -> None:
    assert states_of(LISTED) == ["empty", "stable"]
    assert [state_grade(each) for each in ("stable", "empty", "rebalancing", "dead")] == ["good", "", "advice", "bad"]


def test_a_lag_is_not_told_where_the_end_of_a_partition_is_not_known() -> None:
    assert total_lag({("t", 0): 3, ("t", 1): 9}, {("t", 0): 10, ("t", 1): 5}) == 7
    assert total_lag({("t", 0): 3, ("t", 1): 9}, {("t", 0): 10}) is None
    assert total_lag({}, {}) == 0


def test_a_row_says_what_its_group_does_not_tell() -> None:
    standings = {
        "billing": GroupStanding(state="empty", members=0, committed={("t", 0): 4}),
        "audit": GroupStanding(problem="not authorized"),
    }
    billing, _, audit = group_rows(LISTED, standings, {("t", 0): 6})
    assert (billing.state, billing.members, billing.lag, billing.problem) == ("empty", 0, 2, None)
    assert (audit.state, audit.members, audit.lag, audit.problem) == ("empty", None, None, "not authorized")


def member(name: str, assignment: tuple[Partition, ...], target: tuple[Partition, ...] | None = None) -> Member:
    return Member(
        member_id=name, instance_id=None, client_id=name, host="h", assignment=assignment, target_assignment=target
    )


def group(*members: Member) -> Group:
    return Group(group="g", state="stable", type="classic", assignor="range", coordinator="b:1", members=members)


def test_partitions_are_those_with_an_offset_or_a_member() -> None:
    rows = lag_rows(
        group(member("a", (("t", 1),))), {("t", 0): 2, ("u", 0): 1}, {("t", 0): 5, ("t", 1): 3, ("u", 0): 1}
    )
    assert [(each.topic, each.partition, each.committed, each.lag) for each in rows] == [
        ("t", 0, 2, 3),
        ("t", 1, None, None),
        ("u", 0, 1, 0),
    ]
    assert [each.owner.client_id if each.owner else None for each in rows] == [None, "a", None]
    assert known_lag(rows) == 3
    assert known_lag(lag_rows(group(), {("t", 0): 2}, {})) is None


def test_members_tell_what_they_will_read_only_where_it_is_something_else() -> None:
    one, two, three = member_rows(
        group(member("a", (("t", 0), ("t", 2))), member("b", (("t", 1),), (("t", 1),)), member("c", (("t", 3),), ()))
    )
    assert (one.assignment, one.target) == ("t:0,2", None)
    assert (two.assignment, two.target) == ("t:1", None)
    assert (three.assignment, three.target) == ("t:3", "")


def test_a_text_to_be_typed_escapes_what_means_something_in_a_pattern_and_nothing_else() -> None:
    assert exact_pattern("a-b_c & <d>") == "a-b_c & <d>"
    assert exact_pattern("(.*)[x]{1}^$|/+?") == r"\(\.\*\)\[x\]\{1\}\^\$\|\/\+\?"
    assert exact_pattern("\\") == "\\\\"
