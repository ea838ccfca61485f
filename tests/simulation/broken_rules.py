"""Rules of replication, each deliberately broken, to show that the simulation notices.

Each entry says what is broken and puts something wrong in the place of the real rule while it is entered.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_broker import fetch_reading, partition
from ottla_broker.log.files.leader_epoch_checkpoint import LeaderEpochs
from ottla_broker.log.files.log_disposal import LogDisposal
from ottla_broker.partition import Partition
from ottla_broker.reconciliation import Reconciler
from ottla_broker.replica.follower_replica import FetchPosition
from ottla_broker.replica.leader_replica import FollowerProgress, IsrProposal, LeaderReplica
from ottla_broker.replica.longest_log import LongestLogSearch
from ottla_broker.replica.loss_read_limit import end_at_loss
from ottla_broker.replication import following, isr_updates, leader_fetcher, offset_search
from ottla_broker.replication.fetch_plan import FetchPlan
from ottla_broker.replication.leader_fetcher import LeaderFetcher
from ottla_controller import active_controller, isr_changes, replica_controller
from ottla_controller.broker_standing import standings
from ottla_controller.change_sequence import ChangeSequence
from ottla_controller.fenced_writer import NO_FENCE, FencedWriter
from ottla_controller.partition_change import TopicRules
from ottla_controller.topic_rules import rules_of_topics
from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.errors import EtcdError
from ottla_core.cluster.etcd.lease import EtcdLease
from ottla_core.cluster.etcd.watch import EtcdWatch
from ottla_core.cluster.membership.election import Leadership
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState, PartitionState
from ottla_core.cluster.view.freshness import ViewFreshness
from tests.simulation import fake_log, simulated_broker
from tests.simulation.fake_etcd import KEYS
from tests.simulation.replication import FollowerService
from tests.simulation.scripted import LAG_MAX_MS
from tests.support.replaced_rule import rule_replaced

BrokenRule = Callable[[], AbstractContextManager[Any]]


def _replaced(owner: Any, name: str, wrong: Any) -> BrokenRule:
    return lambda: rule_replaced(owner, name, wrong)


# The leader

_high_watermark = LeaderReplica.high_watermark


def _ignoring_isr(self: LeaderReplica, _current: int, log_end_offset: int, **_others: Any) -> int:
    return log_end_offset


def _ignoring_min_isr(self: LeaderReplica, *arguments: int, **others: Any) -> int:
    state, self.state = self.state, replace(self.state, eligible_leaders=())
    try:
        return _high_watermark(self, *arguments, **{**others, "min_in_sync_replicas": 1})
    finally:
        self.state = state


def _ignoring_eligible_leaders(self: LeaderReplica, *arguments: int, **others: Any) -> int:
    state, self.state = self.state, replace(self.state, eligible_leaders=())
    try:
        return _high_watermark(self, *arguments, **others)
    finally:
        self.state = state


def _going_back(self: LeaderReplica, _current: int, log_end_offset: int, **others: Any) -> int:
    return _high_watermark(self, 0, log_end_offset, **others)


def _in_isr_only(self: LeaderReplica, broker_id: int) -> bool:
    return broker_id in self.state.isr


def _acknowledging_at_once(
    self: Partition, _end_offset: int, notify: Callable[[None], None], *, leader_epoch: int
) -> None:
    notify(None)


def _counting_highest_fetch(
    self: FollowerProgress, contact: Any, offset: int, log_start_offset: int, leader_end_offset: int
) -> None:
    _fetched(self, contact, max(offset, self.log_end_offset), log_start_offset, leader_end_offset)


_fetched = FollowerProgress.fetched


@contextmanager
def _logs_never_shorter() -> Iterator[None]:
    with (
        rule_replaced(FollowerProgress, "fetched", _counting_highest_fetch),
        rule_replaced(
            FollowerProgress, "left", lambda *_: None
        ),  # a follower that leaves begins anew, which hides it
    ):
        yield


@contextmanager
def _pending_additions_not_counted() -> Iterator[None]:
    with (
        rule_replaced(LeaderReplica, "may_be_in_sync", _in_isr_only),
        rule_replaced(LeaderReplica, "is_alone", property(lambda self: len(self.state.isr) == 1)),
    ):
        yield


def _forgetting_refused(self: LeaderReplica, proposal: IsrProposal) -> None:
    if proposal is self.proposal:
        self.proposal = None


@contextmanager
def _any_refusal_undoes_a_proposal() -> Iterator[None]:
    """Take every error for "nothing has happened", also NEW_LEADER_ELECTED, which says that it has."""
    with (
        rule_replaced(isr_updates, "REFUSED_FOR_ITS_CONTENT", frozenset(ErrorCode)),
        rule_replaced(LeaderReplica, "refused", _forgetting_refused),
    ):
        yield


# The follower


def _any_high_watermark(
    partition: Partition, records: Any, *, leader_epoch: int, high_watermark: int, log_start_offset: int, now_ms: int
) -> None:
    del log_start_offset
    following._check_follows(partition, leader_epoch)
    if len(records):
        partition.log.append_as_follower(records, now_ms=now_ms)
    partition.set_high_watermark(high_watermark)


async def _cutting_without_a_second_look(
    partition: Partition, offset: int, *, leader_epoch: int, end_offset: int, now_ms: Callable[[], int]
) -> None:
    del leader_epoch, end_offset
    async with partition.log.truncation.prepared(offset):
        partition.log.truncate_to(offset, now_ms())


@contextmanager
def _cuts_go_by_what_was_once_answered() -> Iterator[None]:
    """Cut a log although it is under another leader, or leads, by the time that this is prepared."""
    with (
        rule_replaced(leader_fetcher, "cut_log", _cutting_without_a_second_look),
        rule_replaced(offset_search, "cut_log", _cutting_without_a_second_look),
    ):
        yield


_on_partition = LeaderFetcher.on_partition


@contextmanager
def _fetchers_take_answers_after_an_election() -> Iterator[None]:
    """Append what a leader has answered under whatever leader epoch it is by then, whoever is to be fetched from."""

    def on_partition(self: LeaderFetcher, fetched: Any) -> None:
        followed = self._plan.get(fetched.topic_id, fetched.partition)
        if followed is not None and followed.asked is not None:
            state = followed.partition.state
            followed.asked = followed.asked._replace(current_leader_epoch=state.leader_epoch)
        _on_partition(self, fetched)

    with (
        rule_replaced(LeaderFetcher, "on_partition", on_partition),
        rule_replaced(FetchPlan, "unfollow", lambda *_: None),
        rule_replaced(following, "_check_follows", lambda *_, **__: None),
    ):
        yield


# The log


def _only_adding_epochs(self: LeaderEpochs, runs: Any) -> None:
    for epoch, first_offset, _ in runs:
        if epoch > self.latest:
            self.assign(epoch, first_offset)


# The controller


async def _writing_blindly(self: ChangeSequence, writes: Any) -> None:
    await self._writer.write(writes)


async def _writing_each_blindly(self: ChangeSequence, writes: Any) -> Any:
    _, conflict = await self._writer.write_each(writes)
    return conflict


@contextmanager
def _changes_by_older_states() -> Iterator[None]:
    """Let changes be decided although the controller has not seen yet what the one before has written."""
    with (
        rule_replaced(ChangeSequence, "write", _writing_blindly),
        rule_replaced(ChangeSequence, "write_each", _writing_each_blindly),
    ):
        yield


@contextmanager
def _without_partition_epochs() -> Iterator[None]:
    """Let the controller write over whatever there is, as long as it leads."""
    modified_at = op.modified_at

    def modified_at_any(key: str, mod_revision: int) -> Any:
        if key.startswith(f"{KEYS.prefix}partitions/") and mod_revision:
            return op.exists(key)
        return modified_at(key, mod_revision)

    with rule_replaced(op, "modified_at", modified_at_any):
        yield


def _losses_overlooked(brokers: Any, registrations: Any) -> Any:
    found = standings(brokers, registrations)
    return replace(found, lost=frozenset(), fit=frozenset(found.live) - found.departing - found.restarted)


def _unclean_shutdowns_overlooked(brokers: Any, registrations: Any) -> Any:
    return replace(standings(brokers, registrations), unclean=frozenset())


def _always_unclean(*arguments: Any) -> Callable[[Any], TopicRules]:
    rules_of = rules_of_topics(*arguments)
    return lambda topic: replace(rules_of(topic), allows_unclean=True)


_modified_at = op.modified_at


def _any_fence(key: str, mod_revision: int) -> Any:
    return op.created_at("never", op.ABSENT) if key == KEYS.controller else _modified_at(key, mod_revision)


@contextmanager
def _old_controllers_write() -> Iterator[None]:
    """Let whoever has been the controller write, whoever is it now, and let it go by a lease that is over."""
    with (
        rule_replaced(op, "modified_at", _any_fence),
        rule_replaced(FencedWriter, "_checked", lambda self, _leader: SimpleNamespace(mod_revision=self._fence)),
        rule_replaced(Leadership, "is_current", lambda self: not self._over.is_set()),
    ):
        yield


_move_fence = FencedWriter._move_fence


async def _moving_the_fence_once(self: FencedWriter) -> int:
    """Go on with the fence as it was moved first, also where a write was lost since."""
    moved: int = vars(self).setdefault("moved_once_to", NO_FENCE)
    if moved == NO_FENCE:
        moved = vars(self)["moved_once_to"] = await _move_fence(self)
    self._fence = max(self._fence, moved)
    return moved


@contextmanager
def _eligible_leaders_kept() -> Iterator[None]:
    with (
        rule_replaced(active_controller, "partitions_to_clear", lambda *_: ()),
        rule_replaced(LeaderReplica, "high_watermark", _ignoring_eligible_leaders),
    ):
        yield


@contextmanager
def _broker_epochs_not_checked() -> Iterator[None]:
    with (
        rule_replaced(isr_changes, "_ineligibility", lambda *_: ""),
        rule_replaced(FollowerService, "check_follower", lambda *_: None),
    ):
        yield


# The client of etcd

_understand = EtcdWatch._understand


@contextmanager
def _watches_go_on_behind_the_newest_revision() -> Iterator[None]:
    """Take the revision in a response's header for that of its events."""

    async def understand(self: EtcdWatch, response: Any) -> Any:
        batch = await _understand(self, response)
        return replace(batch, revision=response.header.revision) if batch is not None else None

    with rule_replaced(EtcdWatch, "_understand", understand):
        yield


@contextmanager
def _leases_counted_from_the_answer() -> Iterator[None]:
    """Give a lease its whole time from when a renewal is answered, not from when it was sent."""

    def renew(self: EtcdLease, deadline: float) -> None:
        del deadline
        if self.is_valid():
            self._deadline = self._clock.monotonic() + self.ttl_s

    with rule_replaced(EtcdLease, "renew", renew):
        yield


async def _leaving_registered(self: Membership) -> None:
    """Leave, and count as registered until etcd has answered."""
    if self._task is not None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
    if self.is_current():
        with suppress(EtcdError):
            await self._etcd.transaction([op.created_at(self._key, self._epoch)], [op.delete(self._key)])
    self._lease = None
    await self.session.close()


# The broker


def _leading_under_any_registration(
    self: Reconciler, partition: Partition, state: PartitionState, epoch: int
) -> bool:
    del partition, epoch
    return state.leader == self._broker_id


_reconcile = Reconciler._reconcile
_newest_retirement = Reconciler._retirement_of


@contextmanager
def _passes_go_by_their_first_state() -> Iterator[None]:
    """Retire what the state at a pass's beginning has taken away, whatever has become of it since."""
    states: dict[Reconciler, ClusterState] = {}

    async def reconcile(self: Reconciler) -> None:
        states[self] = self._feed.state
        await _reconcile(self)

    def retirement_of(self: Reconciler, partition: Partition) -> LogDisposal | None:
        newest = self._feed
        self._feed = SimpleNamespace(state=states[self])  # type: ignore[assignment]
        try:
            return _newest_retirement(self, partition)
        finally:
            self._feed = newest

    with (
        rule_replaced(Reconciler, "_reconcile", reconcile),
        rule_replaced(Reconciler, "_retirement_of", retirement_of),
    ):
        yield


_begin = LeaderFetcher._begin


def _cutting_at_once(self: LeaderFetcher, followed: Any) -> None:
    partition = followed.partition
    if partition.lacks_records and not partition.counts_as_complete(partition.state):
        self._plan.pause(followed, None)
        self._start(self._cut_where_records_are_lost(followed, partition.state.leader_epoch), followed)
        self._look_again()
    else:
        _begin(self, followed)


def _holding_none_behind_the_loss(offset: int, lost_from: int, end_offset: int, **found: Any) -> int:
    return end_at_loss(offset, lost_from, end_offset, **found) if offset <= lost_from else end_offset


_fetch_position = Partition.fetch_position


def _claiming_all(self: Partition) -> FetchPosition:
    return replace(_fetch_position(self), claims_all=True)


_longest = LongestLogSearch.longest


def _longest_without_patience(self: LongestLogSearch, *arguments: Any, wait_ms: int | None, **others: Any) -> Any:
    return _longest(self, *arguments, wait_ms=LAG_MAX_MS if wait_ms is None else wait_ms, **others)


BROKEN_RULES: Mapping[str, BrokenRule] = {
    "the high watermark ignores the in-sync set": _replaced(LeaderReplica, "high_watermark", _ignoring_isr),
    "the high watermark moves below min.insync.replicas": _replaced(
        LeaderReplica, "high_watermark", _ignoring_min_isr
    ),
    "the high watermark goes back": _replaced(LeaderReplica, "high_watermark", _going_back),
    "additions to the in-sync set that are under way are not counted": _pending_additions_not_counted,
    "any refusal undoes a proposal": _any_refusal_undoes_a_proposal,
    "followers join before they have reached the high watermark": _replaced(
        LeaderReplica, "_may_join", lambda *_: True
    ),
    "a follower's log never gets shorter": _logs_never_shorter,
    "acks=all is answered at once": _replaced(Partition, "when_replicated", _acknowledging_at_once),
    "logs that have parted are not found out": _replaced(fetch_reading, "diverging_epoch", lambda *_: None),
    "followers do not cut their logs": _replaced(following, "truncation_offset", lambda log, *_: log.log_end_offset),
    "epochs that were truncated come back after a crash": _replaced(LeaderEpochs, "agree_with", _only_adding_epochs),
    "recovery points outlive a truncation": _replaced(fake_log._Kept, "announce_truncation", lambda *_: None),
    "followers believe any high watermark": _replaced(leader_fetcher, "append_from_leader", _any_high_watermark),
    "followers take answers of former leaders": _fetchers_take_answers_after_an_election,
    "cuts go by what was once answered": _cuts_go_by_what_was_once_answered,
    "old controllers are not fenced": _old_controllers_write,
    "nothing is written between a lost write and its repetition": _replaced(
        FencedWriter, "_move_fence", _moving_the_fence_once
    ),
    "views are taken for fresh": _replaced(ViewFreshness, "is_fresh", lambda _: True),
    "a watch that has stalled is kept": _replaced(EtcdWatch, "break_off", lambda _: None),
    "watches go on behind the newest revision": _watches_go_on_behind_the_newest_revision,
    "leases are counted from the answer": _leases_counted_from_the_answer,
    "who leaves counts as registered": _replaced(Membership, "close", _leaving_registered),
    "partition epochs are not compared": _without_partition_epochs,
    "leaders are elected outside the in-sync set": _replaced(replica_controller, "rules_of_topics", _always_unclean),
    "wiped directories are not noticed": _replaced(replica_controller, "standings", _losses_overlooked),
    "unclean shutdowns are overlooked": _replaced(replica_controller, "standings", _unclean_shutdowns_overlooked),
    "stale broker epochs are accepted": _broker_epochs_not_checked,
    "stale proposals are accepted": _replaced(isr_changes, "_check_leadership", lambda *_: None),
    "eligible leaders outlive a change of min.insync.replicas": _eligible_leaders_kept,
    "a restarted leader goes on in its former epoch": _replaced(
        Reconciler, "_leads", _leading_under_any_registration
    ),
    "a pass goes by its first state": _passes_go_by_their_first_state,
    "a lost log is not noticed": _replaced(Reconciler, "_note_held", lambda *_: None),
    "a reported failure changes nothing": _replaced(
        isr_changes, "without_failed_log", lambda _id, partition, *_: partition
    ),
    "a failed fsync is forgotten by the next start": _replaced(simulated_broker, "fsync_failed_in", lambda _disk: 0),
    "who may lack records leads at once": _replaced(Partition, "_must_search", lambda _: False),
    "the longest log is looked for among those that are heard first": _replaced(
        LongestLogSearch, "missing", lambda *_: ()
    ),
    "logs with gaps are cut before a leader is above doubt": _replaced(LeaderFetcher, "_begin", _cutting_at_once),
    "followers that end within a gap are not held": _replaced(
        partition, "end_at_loss", _holding_none_behind_the_loss
    ),
    "logs with gaps claim their ends": _replaced(Partition, "fetch_position", _claiming_all),
    "nobody waits long for those that are away": _replaced(LongestLogSearch, "longest", _longest_without_patience),
    "a reported loss changes nothing": _replaced(isr_changes, "without_log", lambda _id, partition, *_: partition),
}

DEFENDED_BY: Mapping[str, BrokenRule] = {
    # The fence keeps everybody else from writing, and a controller decides nothing before it sees its own last write.
    "partition epochs are not compared": _changes_by_older_states,
}
"""What has to be broken as well, and does no harm alone, because the rule is a second defence behind it."""


@contextmanager
def without_defence(rule: str) -> Iterator[None]:
    """Have a rule alone keep data safe."""
    with DEFENDED_BY.get(rule, nullcontext)():
        yield


@contextmanager
def broken(rule: str) -> Iterator[None]:
    """Break a rule, where it counts."""
    with without_defence(rule), BROKEN_RULES[rule]():
        yield
