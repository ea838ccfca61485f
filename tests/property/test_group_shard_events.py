"""Whatever happens to a group shard, it answers every request once, loses no offset, and its log tells all of it.

Each seed gives a list of random events. When one fails, events are left out as long as it fails in the same way, and
the message shows the seed and what is left.
"""

import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema

from ottla_core.wire import group_responses as api
from ottla_core.wire.conversion import message_of
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.group import Group
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.records import NO_UUID, OffsetCommitValue
from ottla_group_coordinator.records.offset_commit import NO_TIMESTAMP
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.shard import GroupShard
from tests.support.groups.group_events import EVENTS, GroupWorld, Numbers

SEEDS = 30
QUICK_SEEDS = 8
"""The first ones are for `make check`; `make test-all` runs all."""
EVENTS_PER_SEED = 150
EVENTS_PER_CHECK = 10
LONG_MS = 3 * 86_400_000
"""After this, whoever was in a rebalance, waited for or was to be removed has been dealt with."""

SETTINGS = (
    GroupSettings(),
    GroupSettings(initial_rebalance_delay_ms=0, offsets_retention_ms=100_000, offsets_retention_check_ms=10_000),
    GroupSettings(
        batch_bytes_max=1_500,
        group_max_size=2,
        consumer_group_max_size=2,
        offsets_retention_ms=1_000,
        offsets_retention_check_ms=100_000,
    ),
)
OFTEN = (
    "join",
    "join",
    "sync",
    "heartbeat",
    "consumer_heartbeat",
    "consumer_heartbeat",
    "cooperate",
    "cooperate",
    "commit",
    "commit",
    "txn_commit",
    "txn_commit",
    "txn_end",
    "advance",
)

Event = tuple[str, Numbers]


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed >= QUICK_SEEDS else []) for seed in range(SEEDS)]
)
def test_any_events_leave_a_shard_whose_log_tells_all_of_it(seed: int) -> None:
    settings = SETTINGS[seed % len(SETTINGS)]
    happening = random_events(seed, EVENTS_PER_SEED)
    if failure_of(settings, happening, EVENTS_PER_CHECK) is not None:
        shortest = shortened(settings, happening)
        pytest.fail(f"seed {seed}: {failure_of(settings, shortest, 1)!r} after\n{shortest}\nwith {settings}")


def random_events(seed: int, count: int) -> list[Event]:
    """Events for `GroupWorld.step`."""
    source = random.Random(seed)
    kinds = (*OFTEN, *EVENTS)
    return [
        (source.choice(kinds), (source.randrange(8), source.randrange(8), source.randrange(8), source.randrange(8)))
        for _ in range(count)
    ]


def failure_of(settings: GroupSettings, happening: list[Event], events_per_check: int) -> Exception | None:
    """What goes wrong when these events happen."""
    world = GroupWorld(settings=settings)
    try:
        for place, (kind, numbers) in enumerate(happening):
            world.step(kind, numbers)
            if place % events_per_check == 0:
                check_replay(world)
        world.shard.advance(LONG_MS)
        assert not world.shard.waiting, "every request is answered"
        check_replay(world)
    except Exception as error:  # noqa: BLE001  (whatever it is, the events that lead to it are wanted)
        return error
    return None


def shortened(settings: GroupSettings, happening: list[Event]) -> list[Event]:
    """Leave out what the failure does not need."""
    failure = failure_of(settings, happening, 1)
    size = len(happening)
    while size:
        start = 0
        while start < len(happening):
            fewer = happening[:start] + happening[start + size :]
            if type(failure_of(settings, fewer, 1)) is type(failure):
                happening = fewer
            else:
                start += size
        size //= 2
    return happening


def check_replay(world: GroupWorld) -> None:
    """A shard that replays what was written has the same offsets and the same groups."""
    live, replayed = world.shard.shard, world.shard.replayed()
    for group_id in {*live.offsets.group_ids, *replayed.offsets.group_ids}:
        assert told_by_the_log(replayed, group_id) == told_by_the_log(live, group_id)
    assert len(replayed.offsets) == len(live.offsets)
    for group_id in {*live.pending_offsets.group_ids, *replayed.pending_offsets.group_ids}:
        assert pending_of(replayed, group_id) == pending_of(live, group_id)
    for producer_id in (70, 71):
        known, told = (shard.transaction_producers.get(producer_id) for shard in (live, replayed))
        if known is not None:  # else it was silent for long
            assert told is not None
            assert (told.epoch, told.is_open) == (known.epoch, known.is_open)
    assert replayed.groups.keys() <= live.groups.keys()
    for group_id, group in live.groups.items():
        if is_in_the_log(group):
            assert describe(replayed, group_id) == describe(live, group_id)


def told_by_the_log(shard: GroupShard, group_id: str) -> dict[tuple[str, int], OffsetCommitValue]:
    """The offsets of a group; those that say when they expire have no room in their records for the topic's id."""
    return {
        place: value if value.expire_timestamp == NO_TIMESTAMP else replace(value, topic_id=NO_UUID)
        for place, value in shard.offsets.of_group(group_id).items()
    }


def pending_of(shard: GroupShard, group_id: str) -> dict[tuple[str, int], tuple[set[int], int]]:
    """The producers that are about to change a group's offsets, and to how many different ones."""
    pending = shard.pending_offsets
    return {
        place: (set(producer_ids), len(list(pending.values_of(group_id, place))))
        for place, producer_ids in pending.of_group(group_id).items()
    }


def is_in_the_log(group: Group) -> bool:
    """Classic groups write what they have agreed on when they have; before the first time they are in memory only."""
    if not isinstance(group, ClassicGroup):
        return True
    return group.state_name == "Stable" or (group.state_name == "Empty" and group.generation > 0)


def describe(shard: GroupShard, group_id: str) -> Any:
    """All that can be told of a group, whatever the order of its members."""
    group = shard.groups[group_id]
    if isinstance(group, ClassicGroup):
        return describe_classic(group)
    request = GroupRequest(
        token=UUID(int=0),
        api_key=api.CONSUMER_GROUP_DESCRIBE,
        api_version=1,
        client_id="",
        client_host="",
        message=message_of(load_request_schema(api.CONSUMER_GROUP_DESCRIBE, 1), group_ids=(group_id,)),
    )
    (answer,) = shard.handle(request, 0).answers
    response: Any = answer.response
    (described,) = response.groups
    return (
        described.group_state,
        described.group_epoch,
        described.assignment_epoch,
        described.assignor_name,
        {member.member_id: member for member in described.members},
    )


def describe_classic(group: ClassicGroup) -> Any:
    """A classic group with all that its record has."""
    return (
        group.state_name,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.subscribed_topics,
        {
            member.member_id: (
                member.instance_id,
                member.client_id,
                member.client_host,
                member.session_timeout_ms,
                member.rebalance_timeout_ms,
                member.metadata(group.protocol_name or ""),
                member.assignment,
            )
            for member in group.members.values()
        },
    )
