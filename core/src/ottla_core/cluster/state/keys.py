"""The key space in etcd: where each piece of cluster state stands below ``/ottla/<cluster>/``. Pure.

`KeySpace` writes keys, `KeySpace.parse` reads them back as one of the small key classes. The key space of one
cluster never overlaps another's, since a cluster's name holds no slash.

==========================================  ==================================================================
``id``                                      the cluster id, written once
``controller``                              the leading controller, under its lease
``members/<role>/<id>``                     a live process, under its lease
``registrations/<broker id>``               a broker that has ever joined: its log directories and rack
``topics/<name>``                           topic id, partition count, configs
``partitions/<topic id>/<index>``           one partition's replicas, ISR and leader
``configs/brokers/<id or "default">``       dynamic broker settings
``configs/groups/<group id>``               settings of a group; the id is quoted as in a URL
``configs/client-metrics/<name>``           a subscription to clients' metrics; the name is quoted likewise
``acls/<id>``                               one binding of the access control lists
``scram-credentials/<mechanism>/<user>``    what is kept of a user's password; the user's name is quoted likewise
``delegation-tokens/<token id>``            a token that stands for its owner
``client-quotas/<entity>``                  quotas of users, client ids and addresses; see `KeySpace.client_quota`
``links/<name>``                            a source cluster of which topics here are followed
``shards/<internal topic>/<index>``         which coordinator owns a partition of the topic, and as which producer
``producer-ids``                            first producer id that was never handed out
``features``                                the levels of features that the cluster is at
``recovery``                                the last recovery of the state from outside etcd, if there was any
==========================================  ==================================================================
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote
from uuid import UUID

from ottla_core.cluster.state.model import Role
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, ScramMechanism

ROOT = "/ottla/"
DEFAULT_BROKER = "default"


@dataclass(frozen=True, slots=True)
class ClusterIdKey:
    """Holds the cluster id."""


@dataclass(frozen=True, slots=True)
class ControllerKey:
    """Holds the leading controller."""


@dataclass(frozen=True, slots=True)
class ProducerIdsKey:
    """Holds the first free producer id."""


@dataclass(frozen=True, slots=True)
class FeaturesKey:
    """Holds the finalised levels of features."""


@dataclass(frozen=True, slots=True)
class RecoveryKey:
    """Holds the last recovery of the cluster's state."""


@dataclass(frozen=True, slots=True)
class MemberKey:
    """Holds one live process."""

    role: Role
    id: int


@dataclass(frozen=True, slots=True)
class RegistrationKey:
    """Holds what is remembered of one broker."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicKey:
    """Holds one topic."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """Holds one partition."""

    topic_id: UUID
    index: int


@dataclass(frozen=True, slots=True)
class ShardKey:
    """Holds the owner of one partition of an internal topic."""

    topic: str
    index: int


@dataclass(frozen=True, slots=True)
class LinkKey:
    """Holds one link."""

    name: str


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    """Holds the settings of one group."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ClientMetricsConfigKey:
    """Holds one subscription to clients' metrics."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokerConfigKey:
    """Holds the dynamic settings of one broker, or with None of all brokers."""

    broker_id: int | None


@dataclass(frozen=True, slots=True)
class AclKey:
    """Holds one binding of the access control lists."""

    acl_id: UUID


@dataclass(frozen=True, slots=True)
class ScramCredentialKey:
    """Holds what is kept of a user's password for one mechanism."""

    mechanism: ScramMechanism
    user: str


@dataclass(frozen=True, slots=True)
class DelegationTokenKey:
    """Holds one token."""

    token_id: str


@dataclass(frozen=True, slots=True)
class ClientQuotaKey:
    """Holds the quotas of one entity."""

    entity: QuotaEntity


SecurityKey = AclKey | ScramCredentialKey | DelegationTokenKey | ClientQuotaKey

Key = (
    ClusterIdKey
    | ControllerKey
    | ProducerIdsKey
    | FeaturesKey
    | RecoveryKey
    | MemberKey
    | RegistrationKey
    | TopicKey
    | PartitionKey
    | ShardKey
    | BrokerConfigKey
    | GroupConfigKey
    | ClientMetricsConfigKey
    | LinkKey
    | SecurityKey
)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """The keys of one cluster."""

    cluster_name: str

    @property
    def prefix(self) -> str:
        """What every key of this cluster begins with."""
        return f"{ROOT}{self.cluster_name}/"

    @property
    def cluster_id(self) -> str:
        """Key of the cluster id."""
        return f"{self.prefix}id"

    @property
    def controller(self) -> str:
        """Key that the leading controller holds."""
        return f"{self.prefix}controller"

    @property
    def producer_ids(self) -> str:
        """Key of the first free producer id."""
        return f"{self.prefix}producer-ids"

    @property
    def features(self) -> str:
        """Key of the finalised levels of features."""
        return f"{self.prefix}features"

    @property
    def recovery(self) -> str:
        """Key of the last recovery."""
        return f"{self.prefix}recovery"

    @property
    def members(self) -> str:
        """What the keys of all processes begin with."""
        return f"{self.prefix}members/"

    def member(self, role: Role, member_id: int) -> str:
        """Return the key that a process registers under."""
        return f"{self.prefix}members/{role}/{member_id}"

    def registration(self, broker_id: int) -> str:
        """Return the key of what is remembered of a broker."""
        return f"{self.prefix}registrations/{broker_id}"

    def topic(self, name: str) -> str:
        """Return the key of a topic."""
        return f"{self.prefix}topics/{name}"

    def partition(self, topic_id: UUID, index: int) -> str:
        """Return the key of a partition."""
        return f"{self.prefix}partitions/{topic_id}/{index}"

    def shard(self, topic: str, index: int) -> str:
        """Return the key of the owner of a partition of an internal topic."""
        return f"{self.prefix}shards/{topic}/{index}"

    def link(self, name: str) -> str:
        """Return the key of a link."""
        return f"{self.prefix}links/{name}"

    def broker_config(self, broker_id: int | None) -> str:
        """Return the key of a broker's dynamic settings; None stands for the default of all brokers."""
        return f"{self.prefix}configs/brokers/{DEFAULT_BROKER if broker_id is None else broker_id}"

    def group_config(self, group_id: str) -> str:
        """Return the key of a group's settings; a group's id may hold any character."""
        return f"{self.prefix}configs/groups/{quote(group_id, safe='')}"

    def client_metrics_config(self, name: str) -> str:
        """Return the key of a subscription to clients' metrics; its name may hold any character."""
        return f"{self.prefix}configs/client-metrics/{quote(name, safe='')}"

    def acl(self, acl_id: UUID) -> str:
        """Return the key of one binding."""
        return f"{self.prefix}acls/{acl_id}"

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> str:
        """Return the key of what is kept of a user's password; a name may hold any character."""
        return f"{self.prefix}scram-credentials/{mechanism.sasl_name}/{quote(user, safe='')}"

    def delegation_token(self, token_id: str) -> str:
        """Return the key of a token."""
        return f"{self.prefix}delegation-tokens/{quote(token_id, safe='')}"

    def client_quota(self, entity: QuotaEntity) -> str:
        """Return the key of an entity's quotas, such as `user=ada&client-id`, of all client ids of a user."""
        return f"{self.prefix}client-quotas/{_quoted_entity(entity)}"

    def parse(self, key: str) -> Key | None:
        """Return what a key stands for, or None when this version does not know it."""
        if not key.startswith(self.prefix):
            return None
        try:
            return _parse(key[len(self.prefix) :].split("/"))
        except ValueError:  # not a role, an id or an index
            return None


_SINGLE_KEYS: Mapping[str, Key] = {
    "controller": ControllerKey(),
    "features": FeaturesKey(),
    "id": ClusterIdKey(),
    "producer-ids": ProducerIdsKey(),
    "recovery": RecoveryKey(),
}


def _parse(parts: list[str]) -> Key | None:
    match parts:
        case ["partitions", topic_id, index]:
            return PartitionKey(UUID(topic_id), int(index))
        case ["shards", topic, index]:
            return ShardKey(topic, int(index))
        case ["topics", name]:
            return TopicKey(name)
        case ["links", name]:
            return LinkKey(name)
        case ["members", role, member_id]:
            return MemberKey(Role(role), int(member_id))
        case ["registrations", broker_id]:
            return RegistrationKey(int(broker_id))
        case ["configs", "brokers", broker_id]:
            return BrokerConfigKey(None if broker_id == DEFAULT_BROKER else int(broker_id))
        case ["configs", "groups", quoted]:
            return GroupConfigKey(unquote(quoted))
        case ["configs", "client-metrics", quoted]:
            return ClientMetricsConfigKey(unquote(quoted))
        case [name] if name in _SINGLE_KEYS:
            return _SINGLE_KEYS[name]
        case _:
            return _parse_security(parts)


def _parse_security(parts: list[str]) -> SecurityKey | None:
    match parts:
        case ["acls", acl_id]:
            return AclKey(UUID(acl_id))
        case ["scram-credentials", mechanism, quoted] if mechanism in _SCRAM_MECHANISMS:
            return ScramCredentialKey(_SCRAM_MECHANISMS[mechanism], unquote(quoted))
        case ["delegation-tokens", quoted]:
            return DelegationTokenKey(unquote(quoted))
        case ["client-quotas", quoted]:
            return ClientQuotaKey(_unquoted_entity(quoted))
        case _:
            return None


_SCRAM_MECHANISMS: Mapping[str, ScramMechanism] = {each.sasl_name: each for each in ScramMechanism}


def _quoted_entity(entity: QuotaEntity) -> str:
    """Return an entity as its key has it."""
    return "&".join(str(kind) if name is None else f"{kind}={quote(name, safe='')}" for kind, name in entity.names)


def _unquoted_entity(quoted: str) -> QuotaEntity:
    """Return the entity of a key.

    Raises:
        ValueError: it is malformed.
    """
    names: dict[QuotaEntityKind, str | None] = {}
    for part in quoted.split("&"):
        kind, is_named, name = part.partition("=")
        names[QuotaEntityKind(kind)] = unquote(name) if is_named else None
    return QuotaEntity(tuple((kind, names[kind]) for kind in QuotaEntityKind if kind in names))
