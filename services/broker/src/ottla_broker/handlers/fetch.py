"""Fetch (key 1): record data from partitions of this broker, sent from the file without entering Python.

Consumers and followers both fetch. A fetch is answered as soon as `min_bytes` are there, something is wrong,
`max_wait` is over, or its client asks for something else on the same connection. The data of one response is bounded
by the request's limits and by `fetch.max.bytes`; the first partition that has any gives at least one batch, so that a
reader always makes progress.

What is read is in `fetch_reading.py`, sessions (KIP-227) in `fetch_sessions.py`, waiting in `delayed_fetch.py`. Here
the request is taken apart and the response put together.
"""

from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

from ottla_broker.authorization import denial
from ottla_broker.broker import Broker, Request
from ottla_broker.delayed_fetch import DelayedFetch
from ottla_broker.fetch_reading import FetchTerms, Reading, look, note_told
from ottla_broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    Named,
)
from ottla_broker.log.partition.read_isolation import READ_COMMITTED
from ottla_broker.log.segments.log_slice import LogSlice
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.partition import Partition
from ottla_broker.replica.leader_replica import FollowerContact
from ottla_broker.replica_selection import replica_in_rack
from ottla_broker.replication.throttle import is_throttled_leader
from ottla_core.acls import AclOperation, ResourceKind
from ottla_core.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, StaleBrokerEpoch
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_core.observe.request_errors import count_error, count_errors
from ottla_core.throttle_config import UNLIMITED
from ottla_core.wire.fetch_response import PartitionFetched, encode_fetch_response
from ottla_core.wire.replica_fetch_request import PartitionFetch

FETCH_KEY = 1
FIRST_VERSION_WITH_LOG_START_OFFSET = 5
FIRST_VERSION_WITH_SESSIONS = 7
FIRST_VERSION_WITH_EPOCH = 9
FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_WITH_LAST_FETCHED_EPOCH = 12
FIRST_VERSION_BY_TOPIC_ID = 13
FIRST_VERSION_WITH_REPLICA_EPOCH = 15
NOT_GIVEN = -1
ASKING_FOR_EVERYTHING = (INITIAL_EPOCH, FINAL_EPOCH)
LED_BY_OTHERS = (NotLeaderOrFollower.code, FencedLeaderEpoch.code)

Topics = list[tuple[Named, list[PartitionFetched[LogSlice]]]]


def handle(broker: Broker, request: Request) -> Outcome:
    """Answer from the logs as they are, or wait for more."""
    message = request.message
    try:
        fetch = _Fetch(broker, request)
    except KafkaError as error:
        return refusal(request, error)
    session, reading = fetch.session, fetch.look()
    min_bytes = min(message.min_bytes, fetch.terms.bytes_max)
    max_wait_s = message.max_wait.total_seconds()
    if reading.size_bytes >= min_bytes or reading.is_urgent or max_wait_s <= 0 or not session.size:
        return fetch.answer(reading)
    return DelayedFetch(
        fetch,
        session,
        reading,
        min_bytes=min_bytes,
        max_wait_s=max_wait_s,
        delayed=request.connection.delayed,
    ).answered


def refusal(request: Request, error: KafkaError) -> Parts:
    """Return the response that tells of an error of the whole request."""
    count_error(FETCH_KEY, error.code)
    return list(encode_fetch_response(request.version, request.response_header(), [], error_code=error.code))


class _Fetch:
    """One request: its session and its terms.

    Attributes:
        session: the reader's; one of this request alone if it has none.
        terms: what the request says of all partitions.
    """

    __slots__ = ("_broker", "_is_incremental", "_request", "_wants_session", "session", "terms")

    def __init__(self, broker: Broker, request: Request) -> None:
        """Take in what the request says.

        Raises:
            KafkaError: its session is not there or not where it should be, or the follower has another registration.
        """
        self._broker = broker
        self._request = request
        self._is_incremental = False
        message, version = request.message, request.version
        follower = _follower(broker, message, version)
        epoch = message.session_epoch if version >= FIRST_VERSION_WITH_SESSIONS else FINAL_EPOCH
        is_allowed = follower is None or broker.authorization.permits_on_cluster(request, AclOperation.CLUSTER_ACTION)
        self._wants_session = epoch == INITIAL_EPOCH and is_allowed
        if epoch in ASKING_FOR_EVERYTHING:
            self.session = FetchSession(follower=follower, uses_topic_ids=version >= FIRST_VERSION_BY_TOPIC_ID)
            if version >= FIRST_VERSION_WITH_SESSIONS and message.session_id != NO_SESSION:
                broker.fetch_sessions.remove(message.session_id)
            _ask(self.session, message, version)
        elif is_allowed:
            self.session = self._go_on(follower)
        else:
            raise FetchSessionIdNotFound("who may not replicate has no fetch session")
        self.terms = _terms(broker, request, self.session.follower, is_allowed=is_allowed)

    def _go_on(self, follower: FollowerContact | None) -> FetchSession:
        """Return the session that the request refers to, with what the request adds and removes."""
        message, version, cache = self._request.message, self._request.version, self._broker.fetch_sessions
        by_id = version >= FIRST_VERSION_BY_TOPIC_ID
        session = cache.resume(message.session_id, message.session_epoch, follower, uses_topic_ids=by_id)
        if session.waiting is not None:
            session.waiting.refuse(InvalidFetchSessionEpoch("the next request of the fetch session has come"))
        _ask(session, message, version)
        for topic in message.forgotten_topics_data:
            named = (topic.topic_id or ZERO_UUID) if by_id else topic.topic
            for index in topic.partitions:
                session.forget(named, index)
        cache.resumed(session, _monotonic_ms(self._broker))
        self._is_incremental = session.id != NO_SESSION
        return session

    def look(self) -> Reading:
        """Look at what the logs have now."""
        return look(self.session, self.terms, self._broker.partitions, only_news=self._is_incremental)

    def answer(self, reading: Reading) -> Parts:
        """Return the response, and note in the session what it tells.

        To a reader that is above its quota it tells nothing, so the session stays as it is.
        """
        session, request, broker = self.session, self._request, self._broker
        throttle_ms = 0
        if broker.quotas.are_on and session.follower is None:
            may_read = broker.quotas.may_fetch(request.connection, request.header.client_id, reading.size_bytes)
            throttle_ms = request.throttle_ms()
            if not may_read:
                return self._nothing(throttle_ms)
        if self._wants_session:
            broker.fetch_sessions.keep(session, _monotonic_ms(broker))
        if session.id != NO_SESSION:
            note_told(session, reading)
        if session.follower is not None:
            _note_sent(broker, session.follower, reading)
        elif reading.size_bytes:
            _count_fetched(reading)
        leaders: Collection[int] = ()
        if reading.is_urgent:
            count_errors(FETCH_KEY, (outcome.error_code for _, _, outcome, _ in reading.found if outcome.error_code))
            leaders = self._name_leaders(reading)
        return list(
            encode_fetch_response(
                request.version,
                request.response_header(),
                by_topic(reading),
                session_id=session.id,
                node_endpoints=broker.node_endpoints(leaders, request.listener) if leaders else (),
                throttle_ms=throttle_ms,
            )
        )

    def _nothing(self, throttle_ms: int) -> Parts:
        """Return the response to a reader that has to wait."""
        request = self._request
        header = request.response_header()
        return list(
            encode_fetch_response(request.version, header, [], session_id=self.session.id, throttle_ms=throttle_ms)
        )

    def _name_leaders(self, reading: Reading) -> set[int]:
        """Add to the errors of readers who went to the wrong broker who the leader is, and return all these."""
        leaders: set[int] = set()
        for wanted, _, outcome, _ in reading.found:
            if outcome.error_code in LED_BY_OTHERS:
                outcome.current_leader = self._broker.current_leader(wanted.named, wanted.asked.partition)
                if outcome.current_leader is not None:
                    leaders.add(outcome.current_leader.leader_id)
        return leaders

    def refuse(self, error: KafkaError) -> Parts:
        """Return the response that tells of an error of the whole request."""
        return refusal(self._request, error)


def by_topic(reading: Reading) -> Topics:
    """Return the outcomes in their order; partitions of one topic that follow each other share its name."""
    topics: Topics = []
    former: Named | None = None
    for wanted, _, outcome, _ in reading.found:
        if wanted.named != former:
            former = wanted.named
            topics.append((former, [outcome]))
        else:
            topics[-1][1].append(outcome)
    return topics


def _count_fetched(reading: Reading) -> None:
    """Count what a consumer is given."""
    for _, partition, outcome, _ in reading.found:
        if partition is not None and outcome.records is not None:
            partition.traffic.fetched_bytes += outcome.records.size


def _note_sent(broker: Broker, follower: FollowerContact, reading: Reading) -> None:
    """Count what a follower is given against the rate of replication, if there is one."""
    throttle = broker.fetchers.throttles.leader
    if throttle.rate == UNLIMITED:
        return
    for _, partition, outcome, _ in reading.found:
        if partition is not None and outcome.records is not None and _is_throttled(partition, follower):
            throttle.record(outcome.records.size, _monotonic_ms(broker))


def _ask(session: FetchSession, message: Any, version: int) -> None:
    """Add what a request names to the session."""
    for topic in message.topics:
        named = (topic.topic_id or ZERO_UUID) if version >= FIRST_VERSION_BY_TOPIC_ID else topic.topic
        for wanted in topic.partitions:
            session.ask(
                named,
                PartitionFetch(
                    wanted.partition,
                    wanted.current_leader_epoch if version >= FIRST_VERSION_WITH_EPOCH else NOT_GIVEN,
                    wanted.fetch_offset,
                    wanted.last_fetched_epoch if version >= FIRST_VERSION_WITH_LAST_FETCHED_EPOCH else NOT_GIVEN,
                    wanted.log_start_offset if version >= FIRST_VERSION_WITH_LOG_START_OFFSET else NOT_GIVEN,
                    wanted.partition_max_bytes,
                ),
            )


def _follower(broker: Broker, message: Any, version: int) -> FollowerContact | None:
    """Return who replicates with this request; None if it is a consumer's.

    Raises:
        StaleBrokerEpoch: the follower has registered anew since, or does not say under which registration it fetches.
    """
    if version >= FIRST_VERSION_WITH_REPLICA_EPOCH:
        replica_id, epoch = message.replica_state.replica_id, message.replica_state.replica_epoch
    else:
        replica_id, epoch = message.replica_id, NOT_GIVEN
    if replica_id < 0:
        return None
    member, registration = broker.state.brokers.get(replica_id), broker.state.registrations.get(replica_id)
    known_epoch = max(member.epoch if member else 0, registration.broker_epoch if registration else 0)
    if epoch < known_epoch:
        raise StaleBrokerEpoch(f"broker {replica_id} is registered under epoch {known_epoch}, not {epoch}")
    return FollowerContact(replica_id, epoch, _monotonic_ms(broker))


def _terms(broker: Broker, request: Request, follower: FollowerContact | None, *, is_allowed: bool) -> FetchTerms:
    message, config = request.message, broker.config
    bytes_max = min(message.max_bytes, config.fetch_max_bytes)
    if broker.quotas.are_on:
        if follower is None:
            bytes_max = broker.quotas.fetch_bytes_max(request.connection, request.header.client_id, bytes_max)
        elif request.connection.charge is not None and is_allowed:
            request.connection.charge.is_exempt = True  # what replicas copy has rates of its own
    if follower is not None:
        return FetchTerms(
            bytes_max,
            only_leader=True,
            read_committed=False,
            is_withheld=_withholding(broker, follower),
            check_may_read=_check_of_rights(broker, request, is_follower=True),
        )
    only_leader = request.version < FIRST_VERSION_WITH_RACK
    choice = None
    if config.replica_selector_class and not only_leader and message.rack_id:
        choice = _replica_choice(broker, request)
    return FetchTerms(
        bytes_max,
        only_leader,
        message.isolation_level == READ_COMMITTED,
        choice,
        check_may_read=_check_of_rights(broker, request, is_follower=False),
    )


def _check_of_rights(broker: Broker, request: Request, *, is_follower: bool) -> Callable[[Named], None] | None:
    """Return what raises KafkaError for topics that a reader may not read; a follower may read all or none."""
    authorization = broker.authorization
    if not authorization.is_on:
        return None

    def check(named: Named) -> None:
        if is_follower:
            if not authorization.permits_on_cluster(request, AclOperation.CLUSTER_ACTION):
                raise denial(ResourceKind.TOPIC)
            return
        if isinstance(named, UUID):
            found = broker.state.topics_by_id.get(named)
            if found is None:
                return  # the look at it says so
            named = found.name
        authorization.check_topic(request, AclOperation.READ, named)

    return check


def _replica_choice(broker: Broker, request: Request) -> Callable[[Partition, int], int]:
    """Return the rule by which consumers are sent to other replicas; there is only one to choose."""
    rack, brokers, listener = request.message.rack_id, broker.state.brokers, request.listener
    return lambda partition, offset: replica_in_rack(partition, offset, rack, brokers, listener)


def _withholding(broker: Broker, follower: FollowerContact) -> Callable[[Partition], bool] | None:
    """Return which partitions a follower must wait for, if the rate of replication is used up at present."""
    throttle = broker.fetchers.throttles.leader
    if throttle.rate == UNLIMITED or not throttle.wait_ms(_monotonic_ms(broker)):
        return None
    return lambda partition: _is_throttled(partition, follower)


def _is_throttled(partition: Partition, follower: FollowerContact) -> bool:
    return follower.broker_id not in partition.state.isr and is_throttled_leader(partition)


def _monotonic_ms(broker: Broker) -> int:
    return int(broker.clock.monotonic() * 1000)
