"""One member, step by step; what whole groups do is in test_group_simulation."""

from collections.abc import Sequence
from typing import TypeVar

import pytest
from kio.schema.errors import ErrorCode

from ottla_connect.group.member import Member, Phase
from ottla_connect.group.member_messages import (
    AbandonRequest,
    Action,
    DeclareLost,
    Deliver,
    Fail,
    ForgetCoordinator,
    GrantLease,
    MakePlan,
    MemberSettings,
    Warn,
)
from ottla_connect.group.view import GroupView
from ottla_connect.group.work import NO_WORK, Work
from ottla_connect.group.worker_protocol import (
    CONFIG_MISMATCH,
    SESSIONED,
    WorkerAssignment,
    WorkerState,
    decode_assignment,
    decode_state,
    encode_assignment,
    encode_state,
)
from ottla_connect.ids import TaskId
from ottla_core.client.group.messages import Joined, SendHeartbeat, SendJoin, SendSync, Synced

SETTINGS = MemberSettings(
    url="http://me:8083",
    protocols=(SESSIONED,),
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    heartbeat_interval_ms=1_000,
    delay_max_ms=5_000,
)
FIRST_WORK = Work(frozenset({"one"}), frozenset({TaskId("one", 0), TaskId("two", 1)}))
SECOND_WORK = Work(frozenset({"two"}), frozenset({TaskId("two", 0)}))
ActionT = TypeVar("ActionT", bound=Action)


def the(kind: type[ActionT], actions: Sequence[Action]) -> ActionT:
    """The only action of a kind."""
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def kinds(actions: Sequence[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


class Driven:
    """A member whose time and coordinator are the test's."""

    def __init__(self) -> None:
        self.member = Member(SETTINGS)
        self.now_ms = 100_000
        self.done: list[Action] = []

    def note(self, actions: list[Action]) -> list[Action]:
        self.done += actions
        return actions

    def wait(self, duration_ms: int) -> list[Action]:
        """Time passes, in steps as the member wants them."""
        end_ms, actions = self.now_ms + duration_ms, list[Action]()
        while True:
            wake_ms = self.member.wake_ms()
            if wake_ms is None or wake_ms > end_ms:
                self.now_ms = end_ms
                return actions
            self.now_ms = max(wake_ms, self.now_ms)
            actions += self.note(self.member.tick(self.now_ms))

    def last(self, kind: type[ActionT]) -> ActionT:
        return [action for action in self.done if isinstance(action, kind)][-1]

    def joined(self, error: ErrorCode = ErrorCode.none, **fields: object) -> list[Action]:
        values = {"member_id": "me", "generation": 1, "protocol": SESSIONED, "leader": "boss", **fields}
        answer = Joined(error=error, **values)  # type: ignore[arg-type]
        return self.note(self.member.joined(self.last(SendJoin).ticket, answer, self.now_ms))

    def synced(self, assigned: Work = NO_WORK, error: ErrorCode = ErrorCode.none, **fields: object) -> list[Action]:
        told = WorkerAssignment(leader="boss", leader_url="http://boss", assigned=assigned, **fields)  # type: ignore[arg-type]
        answer = Synced(error=error, assignment=encode_assignment(told, SESSIONED))
        return self.note(self.member.synced(self.last(SendSync).ticket, answer, self.now_ms))

    def beaten(self, error: ErrorCode = ErrorCode.none) -> list[Action]:
        ticket = self.last(SendHeartbeat).ticket
        return self.note(self.member.heartbeat_answered(ticket, error, self.now_ms))

    def taken(self) -> list[Action]:
        return self.note(self.member.taken(self.now_ms))

    def inside(self, work: Work = FIRST_WORK) -> "Driven":
        """Comes to have an assignment."""
        self.wait(0)
        self.joined()
        self.synced(work)
        self.taken()
        return self


@pytest.fixture
def driven() -> Driven:
    return Driven()


def test_a_new_worker_joins_at_once_takes_the_id_it_is_given_and_then_its_assignment(driven: Driven):
    assert the(SendJoin, driven.wait(0)).member_id == ""
    again = driven.joined(ErrorCode.member_id_required, member_id="me")
    assert the(SendJoin, again).member_id == "me"
    sync = the(SendSync, driven.joined())
    assert (sync.member_id, sync.generation, sync.assignments) == ("me", 1, {})
    delivered = the(Deliver, driven.synced(FIRST_WORK, config_offset=7))
    assert delivered.assignment.work == FIRST_WORK
    assert delivered.assignment.leader_url == "http://boss"
    assert (delivered.assignment.generation, delivered.assignment.config_offset) == (1, 7)
    assert not delivered.assignment.is_leader
    assert delivered.revoked == NO_WORK
    assert driven.taken() == []
    assert driven.member.assignment == delivered.assignment


def test_it_says_what_it_runs_when_it_joins(driven: Driven):
    assert decode_state(dict(driven.member.metadata(3))[SESSIONED]) == WorkerState(
        url="http://me:8083", config_offset=3
    )
    driven.inside()
    state = decode_state(dict(driven.member.metadata(4))[SESSIONED])
    assert (state.work, state.config_offset) == (FIRST_WORK, 4)


def test_heartbeats_come_at_their_interval_and_the_lease_counts_from_when_they_were_sent(driven: Driven):
    driven.inside()
    assert kinds(driven.wait(1_000)) == ["SendHeartbeat"]
    sent_ms = driven.now_ms
    assert driven.wait(700) == [], "one at a time"
    assert the(GrantLease, driven.beaten()).until_ms == sent_ms + 10_000
    assert driven.wait(299) == []
    assert kinds(driven.wait(1)) == ["SendHeartbeat"]


def test_joining_grants_the_first_lease_from_when_sync_group_was_sent(driven: Driven):
    driven.wait(0)
    driven.wait(3_000)
    driven.joined()
    sent_ms = driven.now_ms
    driven.wait(500)
    assert the(GrantLease, driven.synced(FIRST_WORK)).until_ms == sent_ms + 10_000


def test_a_heartbeat_that_tells_of_a_rebalance_makes_it_join_with_its_work_kept(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    actions = driven.beaten(ErrorCode.rebalance_in_progress)
    assert kinds(actions) == ["GrantLease", "SendJoin"]
    driven.joined(generation=2)
    delivered = the(Deliver, driven.synced(SECOND_WORK))
    assert delivered.assignment.work == FIRST_WORK | SECOND_WORK
    assert delivered.revoked == NO_WORK


def test_what_is_revoked_is_stopped_before_it_joins_again_at_once(driven: Driven):
    driven.inside(FIRST_WORK | SECOND_WORK)
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    driven.joined(generation=2)
    delivered = the(Deliver, driven.synced(revoked=SECOND_WORK))
    assert delivered.revoked == SECOND_WORK
    assert delivered.assignment.work == FIRST_WORK
    assert "SendJoin" not in kinds(driven.wait(900)), "it has not stopped it yet"
    assert kinds(driven.taken()) == ["SendJoin"]
    assert decode_state(dict(driven.member.metadata(0))[SESSIONED]).work == FIRST_WORK


def test_heartbeats_go_on_while_the_worker_takes_its_assignment_and_it_joins_the_rebalance_afterwards(driven: Driven):
    driven.wait(0)
    driven.joined()
    driven.synced(FIRST_WORK)
    assert kinds(driven.wait(1_000)) == ["SendHeartbeat"]
    assert kinds(driven.beaten(ErrorCode.rebalance_in_progress)) == ["GrantLease"]
    assert kinds(driven.wait(1_000)) == ["SendHeartbeat"]
    assert kinds(driven.taken()) == ["SendJoin"]


def test_heartbeats_keep_the_lease_while_others_are_waited_for(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    for _ in range(30):
        assert kinds(driven.wait(1_000)) == ["SendHeartbeat"]
        sent_ms = driven.now_ms
        assert the(GrantLease, driven.beaten(ErrorCode.rebalance_in_progress)).until_ms == sent_ms + 10_000


def test_a_rebalance_that_it_does_not_answer_in_time_ends_the_lease(driven: Driven):
    driven.wait(0)
    driven.joined()
    driven.synced(FIRST_WORK)  # never taken
    sync_ms = driven.now_ms
    for _ in range(70):
        driven.wait(1_000)
        driven.beaten(ErrorCode.rebalance_in_progress)
    assert driven.last(GrantLease).until_ms == sync_ms + 60_000


def test_the_leader_waits_for_the_newest_configuration_and_assigns_to_all(driven: Driven):
    driven.wait(0)
    mine = WorkerState(url="http://me:8083", config_offset=3)
    theirs = WorkerState(url="http://b:8083", config_offset=9)
    members = {"me": encode_state(mine, SESSIONED), "b": encode_state(theirs, SESSIONED)}
    plan = the(MakePlan, driven.joined(leader="me", members=members))
    assert plan.config_offset == 9
    view = GroupView(9, {"one": 1, "two": 1})
    sync = the(SendSync, driven.note(driven.member.plan(plan.ticket, view, driven.now_ms)))
    told = {each: decode_assignment(data) for each, data in sync.assignments.items()}
    assert told["me"].assigned | told["b"].assigned == view.work
    assert {each.leader_url for each in told.values()} == {"http://me:8083"}
    own = Synced(error=ErrorCode.none, assignment=sync.assignments["me"])
    assignment = the(Deliver, driven.member.synced(sync.ticket, own, driven.now_ms)).assignment
    assert assignment.is_leader
    assert assignment.member_urls == {"me": "http://me:8083", "b": "http://b:8083"}
    assert set(assignment.connector_urls) == {"one", "two"}
    assert (
        set(assignment.connector_urls.values())
        == set(assignment.task_urls.values())
        == set(assignment.member_urls.values())
    )


def test_a_leader_that_is_behind_lets_everybody_try_again(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    states = {each: encode_state(WorkerState(url=each, config_offset=9), SESSIONED) for each in ("me", "b")}
    plan = the(MakePlan, driven.joined(leader="me", generation=2, members=states))
    sync = the(SendSync, driven.note(driven.member.plan(plan.ticket, GroupView(8, {}), driven.now_ms)))
    assert {decode_assignment(each).error for each in sync.assignments.values()} == {CONFIG_MISMATCH}
    own = Synced(error=ErrorCode.none, assignment=sync.assignments["me"])
    assert "Deliver" not in kinds(driven.note(driven.member.synced(sync.ticket, own, driven.now_ms)))
    assert "SendJoin" in kinds(driven.wait(250))
    assert decode_state(dict(driven.member.metadata(9))[SESSIONED]).work == FIRST_WORK


def test_a_leader_leaves_out_whoever_is_no_worker(driven: Driven):
    driven.wait(0)
    mine = encode_state(WorkerState(url="http://me:8083", config_offset=0), SESSIONED)
    actions = driven.joined(leader="me", members={"me": mine, "stranger": b"\x00"})
    assert "stranger" in the(Warn, actions).message
    plan = the(MakePlan, actions)
    sync = the(SendSync, driven.member.plan(plan.ticket, GroupView(0, {"one": 1}), driven.now_ms))
    assert set(sync.assignments) == {"me"}


def test_the_leader_joins_again_when_the_delay_is_over(driven: Driven):
    driven.wait(0)
    mine = encode_state(WorkerState(url="http://me:8083", config_offset=0), SESSIONED)
    plan = the(MakePlan, driven.joined(leader="me", members={"me": mine}))
    driven.note(driven.member.plan(plan.ticket, GroupView(0, {}), driven.now_ms))
    driven.synced(delay_ms=3_000)
    driven.taken()
    assert "SendJoin" not in kinds(driven.wait(2_999))
    assert "SendJoin" in kinds(driven.wait(1))


def test_the_others_wait_for_the_leader_when_there_is_a_delay(driven: Driven):
    driven.wait(0)
    driven.joined()
    driven.synced(delay_ms=3_000)
    driven.taken()
    assert "SendJoin" not in kinds(driven.wait(30_000))


def test_what_is_no_assignment_is_not_taken_and_asked_for_again(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    driven.joined(generation=2)
    answer = Synced(error=ErrorCode.none, assignment=b"\x00garbage")
    actions = driven.note(driven.member.synced(driven.last(SendSync).ticket, answer, driven.now_ms))
    assert "Warn" in kinds(actions)
    assert "Deliver" not in kinds(actions)
    assert "SendJoin" in kinds(driven.wait(250))


@pytest.mark.parametrize("phase", [Phase.INSIDE, Phase.JOINING, Phase.SYNCING])
def test_a_member_that_is_not_known_any_more_stops_everything_and_joins_anew(driven: Driven, phase: Phase):
    driven.inside()
    driven.wait(1_000)
    if phase is not Phase.INSIDE:
        driven.beaten(ErrorCode.rebalance_in_progress)
        if phase is Phase.SYNCING:
            driven.joined(generation=2)
        driven.wait(1_000)
    assert driven.member.phase is phase
    actions = driven.beaten(ErrorCode.unknown_member_id)
    assert ("AbandonRequest" in kinds(actions)) is (phase is not Phase.INSIDE)
    the(DeclareLost, actions)
    assert driven.member.assignment is None
    assert driven.wait(60_000) == [], "it waits until everything has stopped"
    driven.taken()
    join = the(SendJoin, driven.wait(1_000))
    assert join.member_id == ""
    assert decode_state(dict(driven.member.metadata(0))[SESSIONED]).work == NO_WORK


def test_a_loss_is_told_after_the_assignment_was_taken(driven: Driven):
    driven.wait(0)
    driven.joined()
    driven.synced(FIRST_WORK)
    driven.wait(1_000)
    assert "DeclareLost" not in kinds(driven.beaten(ErrorCode.unknown_member_id))
    assert driven.member.assignment is None
    assert kinds(driven.taken()) == ["DeclareLost"]
    driven.taken()
    assert "SendJoin" in kinds(driven.wait(1_000))


def test_the_answer_to_a_request_that_was_abandoned_does_not_count(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    driven.beaten(ErrorCode.rebalance_in_progress)
    driven.wait(1_000)
    driven.beaten(ErrorCode.unknown_member_id)
    assert driven.joined(generation=2) == []
    assert driven.member.phase is Phase.LOSING


def test_a_heartbeat_of_an_older_generation_does_not_count(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    old = driven.last(SendHeartbeat).ticket
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    driven.joined(generation=2)
    assert driven.member.heartbeat_answered(old, ErrorCode.illegal_generation, driven.now_ms) == []
    assert driven.member.heartbeat_answered(old, ErrorCode.unknown_member_id, driven.now_ms) == []
    assert driven.member.phase is Phase.SYNCING


def test_another_generation_makes_it_join_with_its_id_and_its_work(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    assert the(SendJoin, driven.beaten(ErrorCode.illegal_generation)).member_id == "me"
    assert driven.member.assignment is not None
    assert driven.member.assignment.work == FIRST_WORK


def test_an_unreachable_coordinator_stops_nothing_and_is_asked_again_ever_more_slowly(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    leases = [action for action in driven.done if isinstance(action, GrantLease)]
    times_ms = []
    for _ in range(12):
        driven.note(driven.member.heartbeat_unanswered(driven.last(SendHeartbeat).ticket, driven.now_ms))
        started_ms = driven.now_ms
        wake_ms = driven.member.wake_ms()
        assert wake_ms is not None
        driven.wait(wake_ms - started_ms)
        times_ms.append(driven.now_ms - started_ms)
    assert times_ms[:6] == [50, 100, 200, 400, 800, 1_000]
    assert times_ms[-1] == 1_000
    assert [action for action in driven.done if isinstance(action, GrantLease)] == leases
    assert "DeclareLost" not in kinds(driven.done)
    assert the(GrantLease, driven.beaten()).until_ms == driven.now_ms + 10_000


def test_a_join_that_is_not_answered_is_sent_again_with_the_same_id(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    assert driven.member.join_unanswered(driven.last(SendJoin).ticket, driven.now_ms) == []
    assert the(SendJoin, driven.wait(50)).member_id == "me"


def test_a_sync_that_is_not_answered_leads_to_joining_again(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    driven.joined(generation=2)
    driven.note(driven.member.sync_unanswered(driven.last(SendSync).ticket, driven.now_ms))
    assert the(SendJoin, driven.wait(50)).member_id == "me"


def test_heartbeats_do_not_stretch_the_time_for_a_sync_that_is_owed(driven: Driven):
    driven.inside()
    driven.note(driven.member.request_rejoin("test", driven.now_ms))
    join_ms = driven.now_ms
    driven.joined(generation=2)
    driven.note(driven.member.sync_unanswered(driven.last(SendSync).ticket, driven.now_ms))
    for _ in range(80):
        for action in driven.wait(1_000):
            if isinstance(action, SendHeartbeat):
                driven.note(driven.member.heartbeat_answered(action.ticket, ErrorCode.none, driven.now_ms))
    assert driven.last(GrantLease).until_ms == join_ms + 60_000


@pytest.mark.parametrize("error", [ErrorCode.not_coordinator, ErrorCode.coordinator_not_available])
def test_the_coordinator_is_looked_for_when_it_may_be_another_broker(driven: Driven, error: ErrorCode):
    driven.wait(0)
    assert kinds(driven.joined(error)) == ["ForgetCoordinator"]
    assert kinds(driven.wait(50)) == ["SendJoin"]


def test_a_coordinator_that_still_loads_the_group_is_asked_again(driven: Driven):
    driven.wait(0)
    assert driven.joined(ErrorCode.coordinator_load_in_progress) == []
    assert kinds(driven.wait(50)) == ["SendJoin"]


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (ErrorCode.group_authorization_failed, "ACL"),
        (ErrorCode.inconsistent_group_protocol, "no Connect workers"),
        (ErrorCode.invalid_session_timeout, "session.timeout.ms"),
        (ErrorCode.group_max_size_reached, "group.max.size"),
    ],
)
def test_what_cannot_get_better_ends_the_membership(driven: Driven, error: ErrorCode, word: str):
    driven.wait(0)
    reason = the(Fail, driven.joined(error)).reason
    assert error.name.upper() in reason
    assert word in reason
    assert driven.wait(60_000) == []


def test_a_protocol_that_we_did_not_offer_ends_the_membership(driven: Driven):
    driven.wait(0)
    assert "'eager'" in the(Fail, driven.joined(protocol="eager")).reason


def test_a_wish_to_rejoin_during_a_rebalance_is_met_after_it(driven: Driven):
    driven.wait(0)
    assert driven.note(driven.member.request_rejoin("test", driven.now_ms)) == []
    driven.joined()
    driven.synced(FIRST_WORK)
    assert the(SendJoin, driven.taken()).reason == "test"


def test_nothing_is_abandoned_when_nothing_waits(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    assert AbandonRequest() not in driven.beaten(ErrorCode.unknown_member_id)


def test_moved_coordinators_are_looked_for_by_heartbeats_too(driven: Driven):
    driven.inside()
    driven.wait(1_000)
    assert ForgetCoordinator() in driven.beaten(ErrorCode.not_coordinator)
    assert kinds(driven.wait(50)) == ["SendHeartbeat"]
