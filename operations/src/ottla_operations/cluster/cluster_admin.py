"""Asking a cluster about itself and having it changed, over the Kafka protocol.

What any broker can answer goes to one of them (`broker_connections.py`). The messages of a question or change are
imported when it is sent, which takes up to a hundredth of a second each: most commands send one or two kinds.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta

from ottla_core.client.blocking_connection import ANSWER_TIMEOUT_S
from ottla_core.client.errors import Unreachable
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.conversion import message_of
from ottla_operations.cluster.broker_connections import BrokerConnections, UnsupportedApi
from ottla_operations.cluster.cluster_view import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    RESOURCE_NAMES,
    TOPIC_RESOURCE,
    BrokerView,
    ClusterView,
    ConfigChange,
    Disks,
    LogDirectoryView,
    Move,
    Outcomes,
    PartitionView,
    QuorumView,
    Refusal,
    ReplicaOnDisk,
    Replicas,
)
from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import CLIENT_ID

OPERATION_TIMEOUT = i32Timedelta.parse(dt.timedelta(seconds=30))
METADATA_TOPIC = "__cluster_metadata"
SET, DELETE = 0, 1
GROUP_KEY = 0
COORDINATOR_KEYS = 8
"""Enough names of groups to meet several shards."""


class ClusterAdmin:
    """A cluster, reached through any broker of it.

    Args:
        bootstrap: addresses of brokers.
        config: settings of a client, under librdkafka's names.
        answer_timeout_s: how long one of them may take to answer.

    Raises:
        OperationError: if a setting cannot be used; from every method, if the cluster cannot be reached, does not let
            this client in, or refuses as a whole.
    """

    def __init__(
        self,
        bootstrap: str,
        config: Mapping[str, Any] | None = None,
        *,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._connections = BrokerConnections(bootstrap, config or {}, answer_timeout_s=answer_timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connections.close()

    def view(self) -> ClusterView:
        """Return brokers, topics and partitions as a broker knows them now."""
        view = _view_in(self.ask(_metadata_request()))
        self._connections.note_brokers(view.brokers.values())
        return view

    def view_of(self, broker: BrokerView) -> ClusterView | None:
        """Return the same as this broker knows them, None if it does not answer."""
        with suppress(Unreachable):
            return _view_in(self._connections.ask_broker(broker, _metadata_request()))
        return None

    def controllers(self) -> tuple[int | None, tuple[int, ...]]:
        """Return the leading controller and all of them; nothing if the cluster does not tell."""
        try:
            response = self.ask(_describe_quorum_request())
        except UnsupportedApi:
            return None, ()
        for each in (found for topic in response.topics for found in topic.partitions):
            if each.error_code == ErrorCode.none:
                leader = each.leader_id if each.leader_id >= 0 else None
                return leader, tuple(sorted(voter.replica_id for voter in each.current_voters))
        return None, ()

    def quorum_as_told_by(self, broker: BrokerView) -> QuorumView:
        """Return what a broker tells of the controllers, and its own time.

        A broker of Kafka passes the question on: there it is the leading controller's time, and a broker that does
        not reach that one refuses the question as a whole.

        Raises:
            OperationError: it does not answer, does not know the question, or refuses it.
        """
        try:
            response = self._connections.ask_broker(broker, _describe_quorum_request())
        except Unreachable as error:
            raise OperationError(f"broker {broker.id} does not answer: {error}") from None
        partitions = _partitions_in(response)
        dates = [
            voter.last_caught_up_timestamp
            for partition in partitions
            for voter in partition.current_voters
            if voter.replica_id == partition.leader_id
        ]
        return QuorumView(
            time_ms=dates[0] if dates and dates[0] >= 0 else None,
            is_out_of_date=any(each.error_code == ErrorCode.request_timed_out for each in partitions),
        )

    def is_controlled(self) -> bool | None:
        """Return whether a controller leads, as a broker knows; None if it does not, or the cluster does not tell.

        Raises:
            OperationError: the question is refused.
        """
        try:
            response = self.ask(_describe_quorum_request())
        except UnsupportedApi:
            return None
        codes = {partition.error_code for partition in _partitions_in(response)}
        if ErrorCode.leader_not_available in codes:
            return False
        return True if codes == {ErrorCode.none} else None

    def coordinates_groups(self) -> bool | None:
        """Return whether a consumer group would find a coordinator; None if the cluster is too old to be asked so.

        One of several groups is enough. Who is not allowed to use a group has heard that somebody looks after it.
        """
        from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest  # noqa: PLC0415

        keys = tuple(f"{CLIENT_ID}-{number}" for number in range(COORDINATOR_KEYS))
        try:
            response = self.ask(FindCoordinatorRequest(key_type=i8(GROUP_KEY), coordinator_keys=keys))
        except UnsupportedApi:
            return None
        return any(each.error_code != ErrorCode.coordinator_not_available for each in response.coordinators)

    def disks(self, brokers: Iterable[BrokerView]) -> Disks:
        """Ask brokers which copies they keep; one that does not answer is left out."""
        from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest  # noqa: PLC0415

        found = {}
        for broker in brokers:
            with suppress(Unreachable, UnsupportedApi):
                response = self._connections.ask_broker(broker, DescribeLogDirsRequest(topics=None))
                found[broker.id] = [
                    ReplicaOnDisk(
                        TopicPartition(topic.name, partition.partition_index),
                        partition.partition_size,
                        partition.is_future_key,
                        partition.offset_lag,
                    )
                    for directory in response.results
                    for topic in directory.topics
                    for partition in topic.partitions
                ]
        return found

    def log_directories(self, brokers: Iterable[BrokerView]) -> dict[int, list[LogDirectoryView]]:
        """Ask brokers for their log directories; one that does not answer is left out."""
        from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest  # noqa: PLC0415

        found = {}
        for broker in brokers:
            with suppress(Unreachable, UnsupportedApi):
                response = self._connections.ask_broker(broker, DescribeLogDirsRequest(topics=()))
                found[broker.id] = [
                    LogDirectoryView(
                        each.log_dir, each.usable_bytes, each.total_bytes, each.error_code != ErrorCode.none
                    )
                    for each in response.results
                ]
        return found

    def disk_space(self, brokers: Iterable[BrokerView]) -> dict[int, list[tuple[int, int]]]:
        """Return how many bytes are free in each log directory, and of how many; likewise."""
        found = self.log_directories(brokers)
        return {broker: [(each.free_bytes, each.size_bytes) for each in those] for broker, those in found.items()}

    def moves(self) -> dict[TopicPartition, Move]:
        """Return the reassignments that are going on."""
        from kio.schema.list_partition_reassignments.v0.request import (  # noqa: PLC0415
            ListPartitionReassignmentsRequest,
        )

        response = self.ask(ListPartitionReassignmentsRequest(timeout=OPERATION_TIMEOUT, topics=None))
        _check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): Move(
                tuple(partition.replicas), tuple(partition.adding_replicas), tuple(partition.removing_replicas)
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    def reassign(self, targets: Mapping[TopicPartition, Replicas | None]) -> Outcomes:
        """Have partitions moved to other brokers, or, with None, have what was begun undone."""
        from kio.schema.alter_partition_reassignments.v1 import request as alter_reassignments_v1  # noqa: PLC0415

        partitions = defaultdict(list)
        for name, replicas in targets.items():
            brokers = None if replicas is None else tuple(BrokerId(broker) for broker in replicas)
            partitions[name.topic].append(
                alter_reassignments_v1.ReassignablePartition(partition_index=i32(name.partition), replicas=brokers)
            )
        topics = tuple(
            alter_reassignments_v1.ReassignableTopic(name=TopicName(topic), partitions=tuple(entries))
            for topic, entries in partitions.items()
        )
        response = self.ask(
            alter_reassignments_v1.AlterPartitionReassignmentsRequest(timeout=OPERATION_TIMEOUT, topics=topics)
        )
        _check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): _refusal(partition)
            for topic in response.responses
            for partition in topic.partitions
        }

    def elect_leaders(self, names: Sequence[TopicPartition] | None, *, unclean: bool = False) -> Outcomes:
        """Have leaders elected; None for all partitions, in which case those that need none may be left out."""
        from kio.schema.elect_leaders.v2 import request as elect_leaders_v2  # noqa: PLC0415

        partitions = defaultdict(list)
        for name in names or ():
            partitions[name.topic].append(i32(name.partition))
        topics = tuple(
            elect_leaders_v2.TopicPartitions(topic=TopicName(topic), partitions=tuple(indexes))
            for topic, indexes in partitions.items()
        )
        response = self.ask(
            elect_leaders_v2.ElectLeadersRequest(
                election_type=i8(int(unclean)),
                topic_partitions=None if names is None else topics,
                timeout=OPERATION_TIMEOUT,
            )
        )
        _check(response.error_code, None)
        return {
            TopicPartition(topic.topic, partition.partition_id): _refusal(partition)
            for topic in response.replica_election_results
            for partition in topic.partition_result
        }

    def topic_settings(self, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics, as they are in force; a topic that may not be looked at is left out."""
        from kio.schema.describe_configs.v4 import request as describe_configs_v4  # noqa: PLC0415

        resources = tuple(
            describe_configs_v4.DescribeConfigsResource(
                resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configuration_keys=tuple(names)
            )
            for topic in topics
        )
        if not resources:
            return {}
        response = self.ask(
            describe_configs_v4.DescribeConfigsRequest(
                resources=resources, include_synonyms=False, include_documentation=False
            )
        )
        return {
            each.resource_name: {entry.name: entry.value or "" for entry in each.configs}
            for each in response.results
            if each.error_code == ErrorCode.none
        }

    def client_metrics(self, name: str) -> dict[str, tuple[str, int]]:
        """Return the settings of a subscription to clients' metrics, each with Kafka's number of its source."""
        from kio.schema.describe_configs.v4 import request as describe_configs_v4  # noqa: PLC0415

        resource = describe_configs_v4.DescribeConfigsResource(
            resource_type=i8(CLIENT_METRICS_RESOURCE), resource_name=name, configuration_keys=None
        )
        (result,) = self.ask(
            describe_configs_v4.DescribeConfigsRequest(
                resources=(resource,), include_synonyms=False, include_documentation=False
            )
        ).results
        _check(result.error_code, result.error_message, f"the settings of client-metrics {name}")
        return {entry.name: (entry.value or "", entry.config_source) for entry in result.configs}

    def client_metrics_names(self) -> list[str]:
        """Return the names of the subscriptions to clients' metrics."""
        from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest  # noqa: PLC0415

        response = self.ask(ListConfigResourcesRequest(resource_types=(i8(CLIENT_METRICS_RESOURCE),)))
        _check(response.error_code, None, "listing the subscriptions to clients' metrics")
        return sorted(
            each.resource_name
            for each in response.config_resources
            if getattr(each, "resource_type", CLIENT_METRICS_RESOURCE) == CLIENT_METRICS_RESOURCE
        )

    def alter_configs(self, changes: Iterable[ConfigChange]) -> None:
        """Change dynamic settings.

        Raises:
            OperationError: one resource refuses; others may have been changed.
        """
        from kio.schema.incremental_alter_configs.v1 import request as alter_configs_v1  # noqa: PLC0415

        by_resource = defaultdict(list)
        for change in changes:
            by_resource[change.resource_type, change.resource].append(
                alter_configs_v1.AlterableConfig(
                    name=change.name, config_operation=i8(DELETE if change.value is None else SET), value=change.value
                )
            )
        by_broker = defaultdict(list)
        for (kind, resource), configs in by_resource.items():
            altered = alter_configs_v1.AlterConfigsResource(
                resource_type=i8(kind), resource_name=resource, configs=tuple(configs)
            )
            by_broker[resource if kind == BROKER_RESOURCE else ""].append(altered)
        brokers = self.view().brokers if by_broker.keys() - {""} else {}
        for broker_id, resources in by_broker.items():
            request = alter_configs_v1.IncrementalAlterConfigsRequest(resources=tuple(resources), validate_only=False)
            for each in self._ask_named(brokers, broker_id, request).responses:
                subject = RESOURCE_NAMES[each.resource_type]
                _check(each.error_code, each.error_message, f"the settings of {subject} {each.resource_name}")

    def _ask_named(self, brokers: Mapping[int, BrokerView], broker_id: str, request: Any) -> Any:
        """Ask the broker of this id, since brokers of Kafka take changes of their own settings only; else any one."""
        broker = brokers.get(int(broker_id)) if broker_id else None
        if broker is not None:
            with suppress(Unreachable):
                return self._connections.ask_broker(broker, request)
        return self.ask(request)

    def unregister(self, broker_id: int) -> None:
        """Have the cluster forget a broker that is gone for good."""
        from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest  # noqa: PLC0415

        response = self.ask(UnregisterBrokerRequest(broker_id=BrokerId(broker_id)))
        _check(response.error_code, response.error_message, f"broker {broker_id}")

    def features(self) -> tuple[dict[str, int], dict[int, dict[str, tuple[int, int]]]]:
        """Return the cluster's feature levels, and by broker the lowest and the highest level that it has of each.

        Raises:
            OperationError: a broker does not answer; what it has may not be left out.
        """
        from kio.schema.api_versions.v4.request import ApiVersionsRequest  # noqa: PLC0415

        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        epoch, finalized, supported = -1, {}, {}
        for broker in self.view().brokers.values():
            try:
                response = self._connections.ask_broker(broker, request)
            except Unreachable as error:
                raise OperationError(f"broker {broker.id} does not answer: {error}") from None
            supported[broker.id] = {
                each.name: (each.min_version, each.max_version) for each in response.supported_features
            }
            if response.finalized_features_epoch >= epoch:  # another broker may have heard less
                epoch = response.finalized_features_epoch
                finalized = {each.name: each.max_version_level for each in response.finalized_features}
        return finalized, supported

    def update_features(self, levels: Mapping[str, int], update_type: int, *, validate_only: bool) -> None:
        """Have the cluster go to other levels of features, to all of them or to none.

        Raises:
            OperationError: the cluster refuses.
        """
        from kio.schema.update_features.v2 import request as update_features_v2  # noqa: PLC0415

        updates = tuple(
            update_features_v2.FeatureUpdateKey(
                feature=name, max_version_level=i16(level), upgrade_type=i8(update_type)
            )
            for name, level in levels.items()
        )
        response = self.ask(
            update_features_v2.UpdateFeaturesRequest(
                timeout=OPERATION_TIMEOUT, feature_updates=updates, validate_only=validate_only
            )
        )
        _check(response.error_code, response.error_message)

    def ask_broker(self, broker: BrokerView, request: Any) -> Any:
        """Return one broker's answer to a request of the newest class.

        Raises:
            Unreachable: it does not answer.
            OperationError: it does not let this client in, or has no such API.
        """
        return self._connections.ask_broker(broker, request)

    def ask(self, request: Any) -> Any:
        """Return any broker's answer to a request of the newest class.

        Raises:
            OperationError: the cluster cannot be reached, or does not let this client in.
        """
        return self._connections.ask(request)


def _metadata_request() -> MetadataRequest:
    return message_of(MetadataRequest, topics=None, allow_auto_topic_creation=False)


def _view_in(response: Any) -> ClusterView:
    brokers = {
        broker.node_id: BrokerView(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in sorted(response.brokers, key=lambda each: each.node_id)
    }
    found = [
        PartitionView(
            TopicPartition(topic.name, partition.partition_index),
            partition.leader_id if partition.leader_id >= 0 else None,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
        )
        for topic in response.topics
        for partition in topic.partitions
    ]
    found.sort(key=lambda each: each.name)
    return ClusterView(response.cluster_id or "", brokers, {each.name: each for each in found})


def _describe_quorum_request() -> Any:
    from kio.schema.describe_quorum.v2 import request as describe_quorum_v2  # noqa: PLC0415

    partition = describe_quorum_v2.PartitionData(partition_index=i32(0))
    topic = describe_quorum_v2.TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(partition,))
    return describe_quorum_v2.DescribeQuorumRequest(topics=(topic,))


def _partitions_in(response: Any) -> list[Any]:
    """Return the partitions in an answer to DescribeQuorum.

    Raises:
        OperationError: it is refused as a whole.
    """
    if response.error_code != ErrorCode.none:
        reason = describe_code(response.error_code, response.error_message)
        raise OperationError(f"who leads the controllers is not told: {reason}")
    return [partition for topic in response.topics for partition in topic.partitions]


def _refusal(outcome: Any) -> Refusal | None:
    if outcome.error_code == ErrorCode.none:
        return None
    return Refusal(outcome.error_code, describe_code(outcome.error_code, outcome.error_message))


def _check(code: ErrorCode, message: str | None, subject: str = "") -> None:
    if code != ErrorCode.none:
        reason = describe_code(code, message)
        raise OperationError(f"{subject}: {reason}" if subject else reason)


def describe_code(code: ErrorCode, message: str | None) -> str:
    """Return an error in words: the cluster's own, or else the name of the code."""
    name = code.name.upper()
    return f"{message} ({name})" if message else name
