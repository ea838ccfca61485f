"""What the leader of one partition knows of its followers, and what follows from it. Pure.

A follower tells how far it is by where it fetches. From that come

- the *high watermark*: the smallest end offset over the in-sync set. Records below it are on every in-sync replica,
  hence survive any election. It waits while the set is smaller than `min.insync.replicas`, so a replica that leaves
  a set that has become too small still has everything below it (KIP-966);
- the *in-sync set* that the leader would like to have: without followers that have not caught up for too long, with
  those that keep up and have reached both the high watermark and the start of the leader's epoch.

The set itself is the controller's. The leader proposes a change and goes by the larger of all sets that could be in
force until it knows the outcome: a follower that may have joined already holds the high watermark back, one that may
have left still does. A proposal whose answer was lost could still be carried out late; only a change of the
partition epoch, on which every proposal depends, rules that out.

One `LeaderReplica` serves one leader epoch. Times are monotonic milliseconds.

Source of the rules: Kafka's Partition and Replica, KIP-497, KIP-903, KIP-966.
"""

from collections.abc import Collection
from dataclasses import dataclass

from ottla_core.cluster.state.model import NO_EPOCH, PartitionState

UNKNOWN_OFFSET = -1
NEVER_MS = -(1 << 62)


@dataclass(slots=True)
class FollowerContact:
    """A follower's fetch session, shared by the progress of all its partitions.

    Attributes:
        broker_epoch: the registration under which it fetches.
        last_fetch_ms: when its last request came.
    """

    broker_id: int
    broker_epoch: int
    last_fetch_ms: int


class FollowerProgress:
    """How far one follower is.

    Attributes:
        contact: how it fetches; None before its first fetch in this leader epoch.
        log_start_offset: its first offset.
        log_end_offset: everything below is in its log.
        caught_up_ms: up to when it had everything that the leader had.
        is_asked_for: whether its session has the partition still; the session goes on for other partitions.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_offset",
        "caught_up_ms",
        "contact",
        "is_asked_for",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.contact: FollowerContact | None = None
        self.is_asked_for = False
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self._fetched_ms = caught_up_ms
        self._leader_end_offset = 0

    def fetched(self, contact: FollowerContact, offset: int, log_start_offset: int, leader_end_offset: int) -> None:
        """Note a fetch; one from where the leader's log ended at the fetch before shows it caught up as of then."""
        now_ms = contact.last_fetch_ms
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.contact is not None and offset >= self._leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.contact = contact
        self.is_asked_for = True
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self._fetched_ms = now_ms
        self._leader_end_offset = leader_end_offset

    def left(self) -> None:
        """Note that it was taken out of the in-sync set: it counts again when it has fetched since.

        It need not lag: its log may have failed. Without this the high watermark would wait for it as for one that is
        about to join.
        """
        self.caught_up_ms = NEVER_MS
        self.log_end_offset = UNKNOWN_OFFSET

    def has_fetched_within(self, within_ms: int, now_ms: int) -> bool:
        """Return whether it was still fetching this partition so short a time ago."""
        contact = self.contact if self.is_asked_for else None
        return contact is not None and now_ms - contact.last_fetch_ms <= within_ms

    def is_caught_up(self, log_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Return whether it lacks nothing, or has lacked something for a short time only."""
        return self.log_end_offset == log_end_offset or now_ms - self.caught_up_ms <= lag_max_ms


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An in-sync set that the leader asks the controller for.

    Attributes:
        isr: its members, in the order of the replicas, the leader among them.
        broker_epochs: of each member the registration under which it fetches, `NO_EPOCH` for the leader and for
            members from before that have not fetched yet.
        leader_epoch: the leader's epoch.
        partition_epoch: the change is made only if the partition is as it was at this epoch.
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class LeaderReplica:
    """The leader's side of one partition in one leader epoch.

    Attributes:
        state: the partition as the controller decided it.
        epoch_start_offset: where the leader's log ended when the epoch began.
        followers: the progress of each other replica.
        proposal: the change of the in-sync set that is asked for.
    """

    __slots__ = (
        "_begun_ms",
        "_broker_id",
        "_maybe_in_sync",
        "epoch_start_offset",
        "followers",
        "proposal",
        "state",
    )

    def __init__(
        self,
        broker_id: int,
        state: PartitionState,
        log_end_offset: int,
        now_ms: int,
        *,
        led_this_epoch_before: bool = False,
    ) -> None:
        """Begin to lead.

        Args:
            broker_id: this broker.
            state: the partition as the controller decided it.
            log_end_offset: where this leader's log ends.
            now_ms: the monotonic clock.
            led_this_epoch_before: whether another `LeaderReplica` may have asked for changes in this leader epoch,
                whose outcome is not known here.
        """
        self._broker_id = broker_id
        self._begun_ms = now_ms
        self.state = state
        self.epoch_start_offset = log_end_offset
        self.followers: dict[int, FollowerProgress] = {}
        self.proposal: IsrProposal | None = None
        self._maybe_in_sync = frozenset(state.replicas if led_this_epoch_before else ())
        self._update_followers(now_ms)

    def take_over(self, state: PartitionState, now_ms: int) -> None:
        """Go on with what the controller has decided in this leader epoch; whatever was asked for before is void."""
        assert state.leader_epoch == self.state.leader_epoch
        if state.partition_epoch != self.state.partition_epoch:
            self.proposal = None
            self._maybe_in_sync = frozenset()
        for broker_id in self.followers.keys() & set(self.state.isr).difference(state.isr):
            self.followers[broker_id].left()
        self.state = state
        self._update_followers(now_ms)

    def _update_followers(self, now_ms: int) -> None:
        """Keep the progress of the present followers.

        A member of the in-sync set gets the whole time to show itself; another follower has to catch up first.
        """
        in_sync = self.state.isr
        for broker_id in self.state.replicas:
            if broker_id != self._broker_id and broker_id not in self.followers:
                self.followers[broker_id] = FollowerProgress(now_ms if broker_id in in_sync else NEVER_MS)
        for broker_id in self.followers.keys() - set(self.state.replicas):
            del self.followers[broker_id]

    # Progress

    def stopped_fetching(self, broker_id: int) -> None:
        """Note that a follower has taken the partition out of its session, as it does when another leads."""
        if (progress := self.followers.get(broker_id)) is not None:
            progress.is_asked_for = False

    def has_forgotten(self, broker_id: int) -> bool:
        """Return whether nothing is known of how far a follower is: it has not fetched, or has left the set since."""
        progress = self.followers.get(broker_id)
        return progress is not None and progress.log_end_offset == UNKNOWN_OFFSET

    def another_may_reach_beyond(
        self, offset: int, broker_id: int, *, now_ms: int, lag_max_ms: int, live: Collection[int]
    ) -> bool:
        """Return whether another follower than one has more than what is below an offset, or may be about to say so.

        One that does not fetch any more counts for nothing, nor one that is away, or has said nothing for so long.
        """
        return any(
            other != broker_id
            and (
                other in live and now_ms - self._begun_ms <= lag_max_ms
                if progress.contact is None
                else progress.log_end_offset > offset and progress.has_fetched_within(lag_max_ms, now_ms)
            )
            for other, progress in self.followers.items()
        )

    def appended(self, former_end_offset: int, now_ms: int) -> None:
        """Note that the log has grown: followers that had everything until now begin to lag only now.

        A follower that has nothing to fetch does not show up here, so its last fetch may be long ago.
        """
        for progress in self.followers.values():
            if progress.log_end_offset == former_end_offset:
                progress.caught_up_ms = now_ms

    @property
    def is_alone(self) -> bool:
        """Whether no follower is or may be in sync, so that the leader's own end decides."""
        return len(self.state.isr) == 1 and self.proposal is None and not self._maybe_in_sync

    def may_be_in_sync(self, broker_id: int) -> bool:
        """Return whether a broker is in the in-sync set, or could be by now."""
        return (
            broker_id in self.state.isr
            or (self.proposal is not None and broker_id in self.proposal.isr)
            or broker_id in self._maybe_in_sync
        )

    @property
    def in_sync_count_max(self) -> int:
        """How many replicas the in-sync set can have by now."""
        return 1 + sum(self.may_be_in_sync(broker_id) for broker_id in self.followers)

    def high_watermark(
        self,
        current: int,
        log_end_offset: int,
        *,
        min_in_sync_replicas: int,
        now_ms: int,
        lag_max_ms: int,
        live: Collection[int],
    ) -> int:
        """Return the high watermark, which never goes back.

        It also waits for followers that are about to join the in-sync set: one that had to reach a watermark which
        always is a step ahead would never be let in.
        """
        if len(self.state.isr) < min_in_sync_replicas or self.state.eligible_leaders:
            return current  # whoever is an eligible leader has what lies below it, and no more
        smallest = log_end_offset
        for broker_id, progress in self.followers.items():
            if progress.log_end_offset < smallest and (
                self.may_be_in_sync(broker_id) or (broker_id in live and now_ms - progress.caught_up_ms <= lag_max_ms)
            ):
                smallest = progress.log_end_offset
        return max(current, smallest)

    # The in-sync set

    def propose(
        self, *, log_end_offset: int, high_watermark: int, now_ms: int, lag_max_ms: int, live: Collection[int]
    ) -> IsrProposal | None:
        """Return the in-sync set to ask the controller for, or None if it is as it should be or asked for already.

        Args:
            log_end_offset: the leader's.
            high_watermark: the partition's.
            now_ms: the monotonic clock.
            lag_max_ms: `replica.lag.time.max.ms`.
            live: the brokers that are registered and not about to stop.
        """
        if self.proposal is not None:
            return None
        wanted = tuple(
            broker_id
            for broker_id in self.state.replicas
            if broker_id == self._broker_id
            or (
                self.followers[broker_id].is_caught_up(log_end_offset, now_ms, lag_max_ms)
                and (broker_id in self.state.isr or (broker_id in live and self._may_join(broker_id, high_watermark)))
            )
        )
        if set(wanted) == set(self.state.isr) and not self._maybe_in_sync:
            return None
        self.proposal = IsrProposal(
            isr=wanted,
            broker_epochs=tuple(self._broker_epoch(broker_id) for broker_id in wanted),
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
        )
        return self.proposal

    def _may_join(self, broker_id: int, high_watermark: int) -> bool:
        """Return whether a follower that keeps up has reached the high watermark and the start of the leader's epoch.

        The watermark alone would not do: while it stands still, a follower that is cut off would leave and join
        for ever.
        """
        return self.followers[broker_id].log_end_offset >= max(high_watermark, self.epoch_start_offset)

    def _broker_epoch(self, broker_id: int) -> int:
        progress = self.followers.get(broker_id)
        return progress.contact.broker_epoch if progress is not None and progress.contact is not None else NO_EPOCH

    def refused(self, proposal: IsrProposal) -> None:
        """Note that the controller refused a proposal for its content.

        An earlier attempt at it may be under way still, and be carried out when it arrives. So its members go on
        holding the high watermark back, and the next proposal is made even if it changes nothing: it moves the
        partition epoch.
        """
        if proposal is self.proposal:
            self._maybe_in_sync |= frozenset(proposal.isr)
            self.proposal = None

    # Leading without a registration

    def cannot_be_replaced(self, now_ms: int, within_ms: int, *, allows_unclean: bool) -> bool:
        """Return whether nobody else can have been elected without this leader noticing it.

        Whoever replaces it is one of the other replicas that can be in sync, or an eligible leader where these have
        lost sight of etcd as well; and it does not fetch from it any more. So nobody has if all of them have fetched
        within the last `within_ms`. If no other can be in sync, only an eligible leader could be elected, or anybody
        where unclean elections are allowed.
        """
        in_sync = {broker_id for broker_id in self.followers if self.may_be_in_sync(broker_id)}
        if not in_sync:
            return not (self.state.eligible_leaders or allows_unclean)
        electable = in_sync.union(self.state.eligible_leaders).intersection(self.followers)
        return all(self.followers[broker_id].has_fetched_within(within_ms, now_ms) for broker_id in electable)
