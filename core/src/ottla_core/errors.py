"""The typed errors of Ottla.

Whatever the world can break is raised as a `KafkaError`, which carries the error code that a Kafka client
understands. Code deep in a service raises; the edge (a request handler, a gRPC servicer, the command line)
translates. What only a bug of ours can break is an assertion instead.
"""

from collections.abc import Sequence
from typing import ClassVar

from kio.schema.errors import ErrorCode


class OttlaError(Exception):
    """Anything Ottla raises on purpose."""


class ConfigurationError(OttlaError):
    """A setting is unknown or has a bad value; the message lists every such setting."""


class KafkaError(OttlaError):
    """An error with a place in the Kafka protocol.

    Attributes:
        code: the error code sent to the client.
        message: what was wrong, where, and what to do; sent where the protocol has room for it.
    """

    code: ClassVar[ErrorCode] = ErrorCode.unknown_server_error

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.code.name)
        self.message = message or self.code.name


class CodedError(KafkaError):
    """A Kafka error whose code is known at run time only, such as one received from another process."""

    code: ErrorCode  # type: ignore[misc]

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        self.code = code
        super().__init__(message)

    def __reduce__(self) -> tuple[type["CodedError"], tuple[ErrorCode, str]]:
        """Return how a copy is made: an exception's is made of its `args`, which are the message alone."""
        return type(self), (self.code, self.message)


class OffsetOutOfRange(KafkaError):
    """The offset lies before the log start offset or after the high watermark."""

    code = ErrorCode.offset_out_of_range


class CorruptMessage(KafkaError):
    """A record batch's CRC, length or magic is wrong."""

    code = ErrorCode.corrupt_message


class InvalidRecord(KafkaError):
    """A record batch is intact but breaks a rule, such as its declared count or a missing key.

    Attributes:
        record_errors: which records of the batch are wrong, by their place in it, and why (KIP-467).
    """

    code = ErrorCode.invalid_record

    def __init__(self, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class UnsupportedForMessageFormat(KafkaError):
    """A record batch has a magic below 2."""

    code = ErrorCode.unsupported_for_message_format


class InvalidTimestamp(KafkaError):
    """A record's timestamp is further from the broker's clock than the topic allows."""

    code = ErrorCode.invalid_timestamp


class MessageTooLarge(KafkaError):
    """A record batch is larger than the topic's `max.message.bytes`, or a message too large for another process."""

    code = ErrorCode.message_too_large


class RecordListTooLarge(KafkaError):
    """A record batch is larger than a log segment may be."""

    code = ErrorCode.record_list_too_large


class UnknownTopicOrPartition(KafkaError):
    """No such topic, or this broker holds no such partition."""

    code = ErrorCode.unknown_topic_or_partition


class UnknownTopicId(KafkaError):
    """No topic has this id."""

    code = ErrorCode.unknown_topic_id


class NotLeaderOrFollower(KafkaError):
    """This broker does not lead the partition (or holds no replica of it)."""

    code = ErrorCode.not_leader_or_follower


class FencedLeaderEpoch(KafkaError):
    """The request names an older leader epoch than the partition's."""

    code = ErrorCode.fenced_leader_epoch


class UnknownLeaderEpoch(KafkaError):
    """The request names a newer leader epoch than this broker knows."""

    code = ErrorCode.unknown_leader_epoch


class KafkaStorageError(KafkaError):
    """The log's directory cannot be read or written, for example because the disk is full."""

    code = ErrorCode.kafka_storage_error


class LogDirectoryNotFound(KafkaError):
    """The broker has no log directory of this path."""

    code = ErrorCode.log_dir_not_found


class ReplicaNotAvailable(KafkaError):
    """The broker has no replica of the partition."""

    code = ErrorCode.replica_not_available


class OutOfOrderSequenceNumber(KafkaError):
    """An idempotent producer's batch does not follow its previous one."""

    code = ErrorCode.out_of_order_sequence_number


class DuplicateSequenceNumber(KafkaError):
    """An idempotent producer's batch has long been in the log; clients take that for success.

    Attributes:
        end_offset: it lies before this offset.
    """

    code = ErrorCode.duplicate_sequence_number

    def __init__(self, message: str, end_offset: int) -> None:
        super().__init__(message)
        self.end_offset = end_offset


class InvalidProducerEpoch(KafkaError):
    """A batch carries an older producer epoch than the log has seen."""

    code = ErrorCode.invalid_producer_epoch


class InvalidTransactionState(KafkaError):
    """A transactional batch arrived outside any transaction this broker knows of."""

    code = ErrorCode.invalid_txn_state


class TransactionCoordinatorFenced(KafkaError):
    """A marker is of a former transaction coordinator: a later one has written to the log."""

    code = ErrorCode.transaction_coordinator_fenced


class UnsupportedCompressionType(KafkaError):
    """The batch's codec is unknown, or the request's version predates it."""

    code = ErrorCode.unsupported_compression_type


class InvalidRequest(KafkaError):
    """The request contradicts itself or lacks what it must have."""

    code = ErrorCode.invalid_request


class InvalidTopic(KafkaError):
    """The topic's name breaks Kafka's rules."""

    code = ErrorCode.invalid_topic_exception


class TopicAlreadyExists(KafkaError):
    """A topic of this name exists."""

    code = ErrorCode.topic_already_exists


class InvalidPartitions(KafkaError):
    """The partition count is below one, or not above the present one."""

    code = ErrorCode.invalid_partitions


class InvalidReplicationFactor(KafkaError):
    """The replication factor is below one or above the number of live brokers."""

    code = ErrorCode.invalid_replication_factor


class InvalidReplicaAssignment(KafkaError):
    """An explicit replica assignment names unknown or repeated brokers, or leaves gaps."""

    code = ErrorCode.invalid_replica_assignment


class InvalidConfig(KafkaError):
    """A setting is unknown or its value is not allowed."""

    code = ErrorCode.invalid_config


class PolicyViolation(KafkaError):
    """The request breaks a rule of this cluster, such as a limit on partitions."""

    code = ErrorCode.policy_violation


class NotController(KafkaError):
    """The process asked is not the leading controller (any more)."""

    code = ErrorCode.not_controller


class RequestTimedOut(KafkaError):
    """The request could not be completed within its timeout."""

    code = ErrorCode.request_timed_out


class UnsupportedVersion(KafkaError):
    """The API is known but not in this version."""

    code = ErrorCode.unsupported_version


class InvalidResponse(KafkaError):
    """What another broker sent is no response in the Kafka protocol."""


class StaleBrokerEpoch(KafkaError):
    """The broker is not registered under the epoch that it names."""

    code = ErrorCode.stale_broker_epoch


class BrokerIdNotRegistered(KafkaError):
    """No broker has ever registered under this id, or it was unregistered."""

    code = ErrorCode.broker_id_not_registered


class InvalidUpdateVersion(KafkaError):
    """A change is for a state of the partition that is not its newest, or a feature cannot go to a level."""

    code = ErrorCode.invalid_update_version


class IneligibleReplica(KafkaError):
    """A replica cannot be in sync: its broker is away, back under another registration, or shutting down."""

    code = ErrorCode.ineligible_replica


class ElectionNotNeeded(KafkaError):
    """The partition has the leader that was asked for already."""

    code = ErrorCode.election_not_needed


class PreferredLeaderNotAvailable(KafkaError):
    """The partition's first replica is not live or not in sync."""

    code = ErrorCode.preferred_leader_not_available


class EligibleLeadersNotAvailable(KafkaError):
    """No replica of the partition can lead."""

    code = ErrorCode.eligible_leaders_not_available


class NoReassignmentInProgress(KafkaError):
    """There is no reassignment to cancel."""

    code = ErrorCode.no_reassignment_in_progress


class TopicAuthorizationFailed(KafkaError):
    """The client may not do this with a topic."""

    code = ErrorCode.topic_authorization_failed


class GroupAuthorizationFailed(KafkaError):
    """The client may not do this with a group."""

    code = ErrorCode.group_authorization_failed


class ClusterAuthorizationFailed(KafkaError):
    """The client may not do this with the cluster."""

    code = ErrorCode.cluster_authorization_failed


class TransactionalIdAuthorizationFailed(KafkaError):
    """The client may not do this with a transactional id."""

    code = ErrorCode.transactional_id_authorization_failed


class DelegationTokenAuthorizationFailed(KafkaError):
    """The client may not do this with a delegation token."""

    code = ErrorCode.delegation_token_authorization_failed
