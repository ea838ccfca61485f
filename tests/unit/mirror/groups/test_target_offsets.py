"""When a translated offset becomes that of the target's group."""

import pytest

from ottla_core.client.group.offset_requests import ABSENT, ListedGroup
from ottla_mirror.groups.target_offsets import has_to_be_stored

ONLY_OFFSETS = ListedGroup("Empty", "", "classic")
USED_BEFORE = ListedGroup("Empty", "consumer", "classic")
USED_BEFORE_BY_THE_NEW_PROTOCOL = ListedGroup("Empty", "consumer", "consumer")


@pytest.mark.parametrize("group", [ABSENT, ONLY_OFFSETS, USED_BEFORE, USED_BEFORE_BY_THE_NEW_PROTOCOL])
def test_a_group_without_members_goes_forward(group: ListedGroup) -> None:
    assert has_to_be_stored(10, None, None, group)
    assert has_to_be_stored(10, 9, None, group)
    assert not has_to_be_stored(10, 10, 10, group)


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "Assigning", "Reconciling", "CompletingRebalance"])
def test_a_group_with_members_is_left_alone(state: str) -> None:
    group = ListedGroup(state, "consumer", "")
    assert not has_to_be_stored(10, 9, 9, group)
    assert not has_to_be_stored(10, None, None, group)


@pytest.mark.parametrize("group", [ABSENT, ONLY_OFFSETS])
def test_a_reset_at_the_source_arrives_where_only_the_mirror_has_stored_offsets(group: ListedGroup) -> None:
    assert has_to_be_stored(3, 10, 10, group)
    assert not has_to_be_stored(3, 10, 8, group)
    assert not has_to_be_stored(3, 10, None, group)


@pytest.mark.parametrize("group", [USED_BEFORE, USED_BEFORE_BY_THE_NEW_PROTOCOL])
def test_what_was_consumed_at_the_target_is_not_taken_back(group: ListedGroup) -> None:
    assert not has_to_be_stored(3, 10, 10, group)
