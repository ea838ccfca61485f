"""Random events on a classic group: whatever clients do, and whenever the coordinator dies, the group stays sound.

An example is a list of commands of `tests.support.groups.classic_group_commands`, so a failing one reads like a
transcript. Among single requests there are whole rounds in which some clients come to a generation; chance hardly
gets there. After each command the group is compared with the rules below, and with what a coordinator would load from
the log.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.sync_group.v5.response import SyncGroupResponse
from kio.static.protocol import Entity

from ottla_core.errors import KafkaError
from ottla_group_coordinator.classic.group import ClassicGroup
from ottla_group_coordinator.classic.rebalance import InitialDelay, JoinTimeout, MemberSession, SyncTimeout
from ottla_group_coordinator.classic.snapshot import restore
from ottla_group_coordinator.classic.state import PREVIOUS_STATES, ClassicGroupState
from ottla_group_coordinator.records import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value
from tests.support.groups.classic_group_commands import classic_scene, remember
from tests.support.groups.group_transcripts import Scene

DYNAMIC = ["a", "b", "c"]
STATIC = {"d": "one", "e": "one", "f": "two"}  # two processes dispute the instance id `one`
CLIENTS = [*DYNAMIC, *STATIC]
PROTOCOLS = ["range:x", "range:x,sticky:y", "sticky:y,range:x", "sticky:z,range:x"]

client = st.sampled_from(CLIENTS)


def join_command(chosen: tuple[str, int, str, str, str, str]) -> str:
    name, version, protocols, session, rebalance, more = chosen
    if name in STATIC:
        version = max(version, 5)
        more += f" instance={STATIC[name]}"
    return f"join {name} version={version} protocols={protocols} session={session} rebalance={rebalance}{more}"


def round_of(names: list[str]) -> list[str]:
    """Clients that get to a generation, unless they are in each other's way."""
    joins = [
        f"join {name} version=5 protocols=range:x" + (f" instance={STATIC[name]}" if name in STATIC else "")
        for name in names
    ]
    return [*joins, *joins, "advance 6s", *(sync_command((name, "")) for name in names)]


def sync_command(chosen: tuple[str, str]) -> str:
    name, more = chosen
    return f"sync {name} {' '.join(f'{other}={other}' for other in CLIENTS)}{more}"


join = st.tuples(
    client,
    st.sampled_from([3, 4, 8, 9]),
    st.sampled_from([*PROTOCOLS, *PROTOCOLS, "other:w"]),
    st.sampled_from(["6s", "30s"]),
    st.sampled_from(["5s", "40s"]),
    st.sampled_from(["", "", "", " member=-"]),
).map(join_command)
sync = st.tuples(client, st.sampled_from(["", "", "", "", " generation=1", " protocol=sticky"])).map(sync_command)
single_commands = st.one_of(
    join,
    join,
    sync,
    sync,
    client.map("heartbeat {}".format),
    client.map("leave {}".format),
    st.permutations(CLIENTS).map(lambda names: f"leave {names[0]} {names[1]}"),
    st.just("leave instance=one"),
    st.sampled_from(sorted(STATIC)).map(lambda name: f"join {name} member=- version=9 instance={STATIC[name]}"),
    client.map("commit {}".format),
    st.sampled_from([f"advance {duration}" for duration in ("1s", "3s", "6s", "20s", "5m")]),
    st.just("restart"),
)
rounds = st.lists(client, min_size=1, max_size=4, unique=True).map(round_of)
events = st.one_of(*[single_commands.map(lambda command: [command])] * 4, rounds)


class Watch:
    """What has been promised to clients, and whether it still holds."""

    def __init__(self) -> None:
        self.scene = classic_scene()
        self.scene.on_answer = self.on_answer
        self.scene.run(["topics flights=1", "settings group_max_size=4"])
        self.group: object = None
        self.lives = 0
        self.protocols: dict[tuple[int, int], str | None] = {}
        self.assigning: dict[tuple[int, int], str] = {}

    def run(self, *commands: str) -> None:
        for command in commands:
            self.scene.run([command])
            self.check()

    def on_answer(self, scene: Scene, name: str, response: Entity) -> None:
        if isinstance(response, JoinGroupResponse) and response.error_code is ErrorCode.none:
            self.on_joined(response)
        if isinstance(response, SyncGroupResponse) and response.error_code is ErrorCode.none:
            self.on_synced(scene, response)
        remember(scene, name, response)

    def on_joined(self, response: JoinGroupResponse) -> None:
        """All who are in a generation hear of the same protocol, and at most one of them assigns."""
        if self.scene.shard.groups["g"] is not self.group:
            # A new group, or one that was loaded, which may count a generation again that was never assigned.
            self.group = self.scene.shard.groups["g"]
            self.lives += 1
        generation = (self.lives, response.generation_id)
        assert self.protocols.setdefault(generation, response.protocol_name) == response.protocol_name
        if response.members and not response.skip_assignment:
            assert self.assigning.setdefault(generation, response.member_id) == response.member_id
            assert response.leader == response.member_id
            assert response.member_id in [member.member_id for member in response.members]

    def on_synced(self, scene: Scene, response: SyncGroupResponse) -> None:
        """Nobody hears of an assignment before it is stored."""
        stored = last_snapshot(scene)
        assert stored is not None
        assert response.assignment in [member.assignment for member in stored.members]

    def check(self) -> None:
        group = self.scene.shard.groups.get("g")
        parked: list[str] = []
        if group is not None:
            assert isinstance(group, ClassicGroup)
            members = group.members.values()
            requests = [member.awaiting_join for member in members] + [member.awaiting_sync for member in members]
            parked = [str(request.token) for request in requests if request is not None]
            check_group(group)
            check_timers(self.scene, group)
            check_log(self.scene, group)
        assert Counter(parked) == Counter(self.scene.waiting.keys()), (
            "every request waits in one place, or is answered"
        )


def check_group(group: ClassicGroup) -> None:
    """What a group keeps twice agrees, and its state says what it holds."""
    members = group.members
    assert all(member_id == member.member_id for member_id, member in members.items())
    assert group.static_members == {m.instance_id: m.member_id for m in members.values() if m.instance_id}
    assert group.awaiting_join_count == sum(member.awaiting_join is not None for member in members.values())
    assert group.leader_id in members if members else group.leader_id is None
    assert group.pending_sync <= members.keys()
    assert not group.pending_join & members.keys()
    assert len({member.member_id for member in members.values()}) == len(members)
    offered = Counter(protocol.name for member in members.values() for protocol in member.protocols)
    assert not members or len(members) in offered.values(), "all have a protocol in common"
    assert all(group.supports(group.protocol_type, [name]) == (n == len(members)) for name, n in offered.items())
    assert group.previous_state in PREVIOUS_STATES[group.state] or group.previous_state is ClassicGroupState.DEAD
    if group.state is ClassicGroupState.EMPTY:
        assert not members
    if group.state in {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE}:
        assert members
        assert group.awaiting_join_count == 0
        assert offered[str(group.protocol_name)] == len(members)
    if group.state is not ClassicGroupState.COMPLETING_REBALANCE:
        assert all(member.awaiting_sync is None for member in members.values())


def check_timers(scene: Scene, group: ClassicGroup) -> None:
    """Whatever is waited for, there is a time when waiting ends."""
    timers = scene.shard.timers
    for member in group.members.values():
        is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
        assert MemberSession("g", member.member_id) in timers or (is_waiting and not member.is_new)
    assert all(MemberSession("g", member_id) in timers for member_id in group.pending_join)
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    assert is_preparing == ((JoinTimeout("g") in timers) or (InitialDelay("g") in timers))
    assert bool(group.pending_sync) == (SyncTimeout("g") in timers)


def last_snapshot(scene: Scene) -> GroupMetadataValue | None:
    """What a coordinator would know of the group."""
    for key_bytes, value_bytes in reversed(scene.log):
        key = decode_key(key_bytes)
        if isinstance(key, GroupMetadataKey) and key.group == "g":
            value = None if value_bytes is None else decode_value(key, value_bytes)
            assert value is None or isinstance(value, GroupMetadataValue)
            return value
    return None


def check_log(scene: Scene, group: ClassicGroup) -> None:
    """A group at rest is what would be loaded; one that is not goes on from there."""
    stored = last_snapshot(scene)
    if group.state in {ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE}:
        assert stored is None or stored.generation <= group.generation
        return
    if not group.protocol_type:
        return  # it only keeps offsets, whose records make it
    assert stored is not None, "a generation that was assigned, or ended, is in the log"
    loaded = restore("g", stored)
    assert view(loaded) == view(group)
    for member_id, member in group.members.items():
        for generation in (group.generation, group.generation - 1):
            attempts = [commit_refusal(each, member_id, member.instance_id, generation) for each in (loaded, group)]
            assert attempts[0] is attempts[1]
    assert commit_refusal(loaded, "", None, -1) is commit_refusal(group, "", None, -1)


def view(group: ClassicGroup) -> object:
    """What a coordinator knows of a group at rest."""
    protocol = group.protocol_name or ""
    return (
        (group.state, group.generation, group.protocol_name, group.protocol_type, group.leader_id),
        (group.current_state_timestamp_ms, group.subscribed_topics, group.static_members),
        [
            (
                m.member_id,
                m.instance_id,
                m.metadata(protocol),
                m.assignment,
                m.session_timeout_ms,
                m.rebalance_timeout_ms,
            )
            for m in group.members.values()
        ],
    )


def commit_refusal(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> object:
    """The kind of error with which a commit is refused, or None."""
    try:
        group.check_commit(member_id, instance_id, generation, 9, 0)
    except KafkaError as error:
        return type(error)
    return None


@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=12, max_size=40))
def test_a_group_stays_sound_whatever_happens(happenings: list[list[str]]) -> None:
    watch = Watch()
    for commands in happenings:
        watch.run(*commands)
    # As time goes on, nobody is left waiting, and all who are not heard of are gone.
    watch.run(*["advance 1m"] * 20)
    assert not watch.scene.waiting
    assert all(group.is_empty for group in watch.scene.shard.groups.values())


@settings(max_examples=50, deadline=None)
@given(st.lists(events, max_size=20), st.lists(client, min_size=1, max_size=3, unique_by=lambda c: STATIC.get(c, c)))
def test_clients_that_try_for_long_enough_share_a_stable_group(
    happenings: list[list[str]], survivors: list[str]
) -> None:
    watch = Watch()
    for commands in happenings:
        watch.run(*commands)
    watch.run(*["advance 40s"] * 4)  # the others' sessions and rebalance timeouts pass
    for name in survivors:
        options = f" instance={STATIC[name]}" if name in STATIC else ""
        watch.run(f"join {name} member=- version=5 protocols=range:x session=30s rebalance=40s{options}")
        if name in DYNAMIC:
            watch.run(f"join {name}")
    watch.run("advance 9s")
    for name in survivors:
        watch.run(f"sync {name} {' '.join(f'{other}={other}' for other in survivors)}")
    group = watch.scene.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicGroupState.STABLE
    assert sorted(member.assignment.decode() for member in group.members.values()) == sorted(survivors)
