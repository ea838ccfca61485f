"""Asking the brokers of any cluster about transactions, and ending those that hang (KIP-664)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName
from kio.static.primitive import i8, i16, i32

from ottla_core.client.errors import Unreachable
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of
from ottla_operations.cluster.cluster_admin import ClusterAdmin, describe_code
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView
from ottla_operations.errors import OperationError
from ottla_operations.transactions.transaction_view import (
    NO_COORDINATOR_EPOCH,
    ListedTransaction,
    OpenTransaction,
    TransactionView,
    hanging,
    overdue,
    still_open,
)

TRANSACTION_KEY = i8(1)
NO_OFFSET = -1
PARTITIONS_PER_REQUEST = 500
IDS_PER_REQUEST = 200
UNSEEN = frozenset({ErrorCode.topic_authorization_failed, ErrorCode.unknown_topic_or_partition})
"""Partitions of which a client is told nothing, or that are gone."""


def list_transactions(
    admin: ClusterAdmin,
    view: ClusterView,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int = -1,
) -> list[ListedTransaction]:
    """Return the transactional ids of a cluster, each once.

    Raises:
        OperationError: a broker does not tell its part.
    """
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest  # noqa: PLC0415

    request = message_of(
        ListTransactionsRequest,
        state_filters=tuple(states),
        producer_id_filters=tuple(ProducerId(each) for each in producer_ids),
        duration_filter=longer_than_ms,
    )
    found: dict[str, ListedTransaction] = {}
    for broker in view.brokers.values():
        response = _ask(admin, broker, request)
        _check(response.error_code, f"the transactions of broker {broker.id}")
        if response.unknown_state_filters:
            raise OperationError(f"there is no state {', '.join(response.unknown_state_filters)}")
        for each in response.transaction_states:
            found[each.transactional_id] = ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.transaction_state,
                coordinator=broker.id,
            )
    return sorted(found.values(), key=lambda each: each.transactional_id)


def describe_transactions(
    admin: ClusterAdmin, view: ClusterView, transactional_ids: Sequence[str]
) -> dict[str, TransactionView]:
    """Return what coordinators know of transactional ids; without those of which they know nothing.

    Raises:
        OperationError: a coordinator does not tell.
    """
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest  # noqa: PLC0415

    views: dict[str, TransactionView] = {}
    for broker, names in _coordinators(admin, view, transactional_ids).items():
        for start in range(0, len(names), IDS_PER_REQUEST):
            some = tuple(names[start : start + IDS_PER_REQUEST])
            response = _ask(
                admin, view.brokers[broker], message_of(DescribeTransactionsRequest, transactional_ids=some)
            )
            for each in response.transaction_states:
                if each.error_code == ErrorCode.transactional_id_not_found:
                    continue
                _check(each.error_code, f"transactional id {each.transactional_id}")
                views[each.transactional_id] = _view(each, broker)
    return views


def _coordinators(admin: ClusterAdmin, view: ClusterView, transactional_ids: Sequence[str]) -> dict[int, list[str]]:
    """Return the ids by the broker that clients are sent to for them."""
    from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest  # noqa: PLC0415

    found: dict[int, list[str]] = defaultdict(list)
    for start in range(0, len(transactional_ids), IDS_PER_REQUEST):
        some = tuple(transactional_ids[start : start + IDS_PER_REQUEST])
        response = admin.ask(FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=some))
        for each in response.coordinators:
            _check(each.error_code, f"the coordinator of {each.key}", each.error_message)
            if each.node_id not in view.brokers:
                raise OperationError(f"the coordinator of {each.key} is broker {each.node_id}, which is not there")
            found[each.node_id].append(each.key)
    return found


def _view(state: Any, coordinator: int) -> TransactionView:
    started = state.transaction_start_time
    started_ms = 0 if started is None else round(started.timestamp() * 1000)
    return TransactionView(
        transactional_id=state.transactional_id,
        coordinator=coordinator,
        state=state.transaction_state,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        timeout_ms=round(state.transaction_timeout.total_seconds() * 1000),
        started_ms=started_ms if started_ms > 0 else None,
        partitions=tuple(
            sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)
        ),
    )


def open_transactions(
    admin: ClusterAdmin, view: ClusterView, partitions: Iterable[TopicPartition]
) -> list[OpenTransaction]:
    """Return the transactions that are open in partitions, as their leaders know them; others are left out.

    Raises:
        OperationError: a leader does not tell.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        leader = view.partitions[partition].leader
        if leader is not None and leader in view.brokers:
            by_leader[leader].append(partition)
    found: list[OpenTransaction] = []
    for leader, names in by_leader.items():
        for start in range(0, len(names), PARTITIONS_PER_REQUEST):
            found += _open_at(admin, view.brokers[leader], names[start : start + PARTITIONS_PER_REQUEST])
    return found


def _open_at(admin: ClusterAdmin, leader: BrokerView, names: Sequence[TopicPartition]) -> Iterable[OpenTransaction]:
    from kio.schema.describe_producers.v0 import request as describe_producers  # noqa: PLC0415

    topics: dict[str, list[i32]] = defaultdict(list)
    for name in names:
        topics[name.topic].append(i32(name.partition))
    request = describe_producers.DescribeProducersRequest(
        topics=tuple(
            describe_producers.TopicRequest(name=TopicName(topic), partition_indexes=tuple(indexes))
            for topic, indexes in topics.items()
        )
    )
    for topic in _ask(admin, leader, request).topics:
        for each in topic.partitions:
            if each.error_code in UNSEEN:
                continue
            _check(each.error_code, f"the producers of {topic.name}-{each.partition_index}", each.error_message)
            for producer in each.active_producers:
                if producer.current_txn_start_offset != NO_OFFSET:
                    yield OpenTransaction(
                        partition=TopicPartition(topic.name, each.partition_index),
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        start_offset=producer.current_txn_start_offset,
                        last_written_ms=producer.last_timestamp,
                        coordinator_epoch=max(producer.coordinator_epoch, NO_COORDINATOR_EPOCH),
                    )


def hanging_transactions(
    admin: ClusterAdmin, view: ClusterView, partitions: Iterable[TopicPartition], *, timeout_max_ms: int
) -> list[OpenTransaction]:
    """Return the transactions among partitions that nobody will end.

    Raises:
        OperationError: a broker does not tell.
    """
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    late = overdue(open_transactions(admin, view, partitions), now_ms=now_ms, timeout_max_ms=timeout_max_ms)
    if not late:
        return []
    producers = sorted({each.producer_id for each in late})
    listed = list_transactions(admin, view, producer_ids=producers)
    transactional_ids = {each.producer_id: each.transactional_id for each in listed}
    views = describe_transactions(admin, view, sorted(transactional_ids.values()))
    found = hanging(late, transactional_ids, views)
    return still_open(found, open_transactions(admin, view, {each.partition for each in found}))


def end_transaction(admin: ClusterAdmin, view: ClusterView, found: OpenTransaction) -> None:
    """Abort a transaction in one partition, by a marker that its leader writes.

    Raises:
        OperationError: it cannot be ended.
    """
    from kio.schema.write_txn_markers.v2 import request as write_txn_markers  # noqa: PLC0415

    partition = found.partition
    leader = view.partitions[partition].leader
    if leader is None or leader not in view.brokers:
        raise OperationError(f"{partition} has no leader")
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=ProducerId(found.producer_id),
        producer_epoch=i16(found.producer_epoch),
        transaction_result=False,
        coordinator_epoch=i32(found.coordinator_epoch),
        topics=(
            write_txn_markers.WritableTxnMarkerTopic(
                name=TopicName(partition.topic), partition_indexes=(i32(partition.partition),)
            ),
        ),
    )
    response = _ask(admin, view.brokers[leader], write_txn_markers.WriteTxnMarkersRequest(markers=(marker,)))
    for each in (item for told in response.markers for topic in told.topics for item in topic.partitions):
        _check(each.error_code, f"the transaction in {partition}")


def _ask(admin: ClusterAdmin, broker: BrokerView, request: Any) -> Any:
    try:
        return admin.ask_broker(broker, request)
    except Unreachable as error:
        raise OperationError(f"broker {broker.id} does not answer: {error}") from None


def _check(code: ErrorCode, subject: str, message: str | None = None) -> None:
    if code != ErrorCode.none:
        raise OperationError(f"{subject}: {describe_code(code, message)}")
