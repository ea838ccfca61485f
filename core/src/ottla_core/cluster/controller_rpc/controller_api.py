"""What brokers ask of the controller and what it answers, as plain values.

`ControllerClient` takes and returns these; the controller's rules work on them too. Every item of a request has its
own result with a Kafka error code; `ErrorCode.none` is success. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_core.kafka_uuid import ZERO_UUID

USE_DEFAULT = -1
"""As partition count or replication factor: the cluster's default, or what the assignments imply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """The replicas that a caller wants for one partition, the preferred leader first."""

    index: int
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create.

    `topic_id` is drawn by the caller: a request that had to be repeated then finds its own topic, not an error.
    """

    name: str
    topic_id: UUID
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[PartitionAssignment, ...] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """How a creation ended; `configs` are the topic's own settings, without defaults."""

    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_id: UUID = ZERO_UUID
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReference:
    """A topic by its name or by its id."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """How a deletion ended; `name` is None for an unknown id, `topic_id` zero for an unknown name."""

    name: str | None
    topic_id: UUID = ZERO_UUID
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """A topic that is to have `total_count` partitions; `assignments`: one replica list per added partition."""

    topic: str
    total_count: int
    assignments: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownTopic:
    """How adding partitions to a topic ended."""

    topic: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class ConfigResourceType(IntEnum):
    """What can have settings; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def name_of(cls, number: int) -> str:
        """Return the name of a type as Kafka writes it, or its number if it has none."""
        return cls(number).name if number in set(cls) else f"type {number}"


class ConfigOperation(IntEnum):
    """What to do with a setting; the numbers are those of Kafka's IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one setting; `value` is None for DELETE."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResourceChange:
    """Changes to one topic, one broker (its id as text) or, with an empty name, all brokers.

    `type` is a plain number, since a client may send one that is no `ConfigResourceType`.
    """

    type: int
    name: str
    changes: tuple[ConfigChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResource:
    """How changing one resource's settings ended."""

    type: int
    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """Producer ids that nobody else will get: `length` of them from `first` on."""

    first: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplica:
    """A member of an in-sync set, under the registration that the leader knows it by."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChange:
    """The in-sync set that a leader proposes for one of its partitions, or a replica's report about its log.

    Attributes:
        leader_epoch: the epoch under which the proposer leads.
        partition_epoch: that of the state which the proposal is to replace.
        isr: the whole set, the leader included; empty in a report.
        lost_log: the sender, leader or not, had to begin its log anew although it counts as one that has every
            committed record.
        failed_log: the sender's log can take no more records, and what was not fsynced may be lost.
        longest_log: the sender was elected although it may lack committed records, and has not led. The only member
            of `isr`, which may be the sender, has the longest log, and is to lead.
    """

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSyncReplica, ...]
    lost_log: bool = False
    failed_log: bool = False
    longest_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredIsr:
    """How a proposal of an in-sync set ended; after a success the cluster state of the answer's revision tells it."""

    topic_id: UUID
    index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class ElectionType(IntEnum):
    """What leader is wanted; the numbers are those of Kafka's ElectLeaders."""

    PREFERRED = 0
    """The first replica, if it is in sync."""
    UNCLEAN = 1
    """Any live replica, for a partition without a leader; loses records unless one is in sync."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedLeader:
    """How a requested election ended."""

    topic: str
    index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """The replicas that a partition shall have, preferred leader first; None cancels what is going on."""

    topic: str
    index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredReassignment:
    """Whether a reassignment has begun or was cancelled."""

    topic: str
    index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class FeatureUpdateType(IntEnum):
    """Which way a level may go; the numbers are those of Kafka's UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Only if nothing is lost."""
    UNSAFE_DOWNGRADE = 3
    """Treated as a safe one: nothing is given up that a lower level cannot say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A level that a feature shall have; `type` is a plain number, since a client may send one that there is not."""

    feature: str
    level: int
    type: int = FeatureUpdateType.UPGRADE
