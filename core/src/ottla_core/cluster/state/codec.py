"""What stands in etcd's values: the model as JSON objects. Pure.

Readers skip fields they do not know, so that a newer writer can add some; a field that is missing or of the wrong
type is refused with the key's name, because acting on half a partition would be worse than not acting. What the
key or etcd itself says (ids, indexes, revisions) is not repeated in the value.

A change that a reader may not skip is a new format: its values have a field `format` with its number. Values without
one are of format 1. A process that finds a format that it does not know ends; a level of features keeps such values
away from it as long as it belongs to the cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from ottla_core.cluster.state.features import (
    FIRST_LEVEL,
    OTTLA_VERSION,
    UNSAID,
    FeatureRange,
    FeatureRanges,
    FinalizedFeatures,
)
from ottla_core.cluster.state.json_fields import JsonFields, UnknownFormat, json_bytes
from ottla_core.cluster.state.keys import LinkKey, MemberKey, PartitionKey, RegistrationKey, ShardKey
from ottla_core.cluster.state.model import (
    NO_EPOCH,
    BrokerRegistration,
    ControllerLeader,
    Endpoint,
    Link,
    Member,
    PartitionState,
    Recovery,
    Shard,
    TopicOrigin,
)
from ottla_core.topic_partition import TopicPartition

FEATURES_VERSION = 1
"""The version of the value that holds the finalised levels."""

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """What stands under a topic's key; its partitions have keys of their own."""

    id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)
    origin: TopicOrigin | None = None


def encode_member(member: Member) -> bytes:
    """Return the value of a member's key."""
    return json_bytes(
        {
            "incarnation": str(member.incarnation),
            "rpc_address": member.rpc_address,
            "version": member.version,
            "rack": member.rack,
            "endpoints": [
                {
                    "listener": endpoint.listener,
                    "host": endpoint.host,
                    "port": endpoint.port,
                    "security_protocol": endpoint.security_protocol,
                }
                for endpoint in member.endpoints
            ],
            "directory_ids": [str(directory_id) for directory_id in member.directory_ids],
            "shutting_down": member.shutting_down,
            "highest_producer_id": member.highest_producer_id,
            "producer_epoch_floor": member.producer_epoch_floor,
            "intact_since": member.intact_since,
            "features": _encode_ranges(member.features),
        }
    )


def decode_member(key: MemberKey, value: bytes, create_revision: int) -> Member:
    """Return the member registered under `key`; its epoch is the key's create revision.

    Raises:
        BadValue: the value is not a member.
    """
    fields = JsonFields(str(key), value)
    return Member(
        role=key.role,
        id=key.id,
        epoch=create_revision,
        incarnation=fields.uuid("incarnation"),
        rpc_address=fields.text("rpc_address"),
        version=fields.text("version"),
        rack=None if fields.json.get("rack") is None else fields.text("rack"),
        endpoints=tuple(_decode_endpoint(f"{key}.endpoints", item) for item in fields.items("endpoints")),
        directory_ids=fields.uuids("directory_ids"),
        shutting_down=fields.flag("shutting_down"),
        highest_producer_id=fields.integer("highest_producer_id", -1),
        producer_epoch_floor=fields.integer("producer_epoch_floor", -1),
        intact_since=fields.integer("intact_since", 0),
        features=_decode_ranges(fields),
    )


def encode_registration(registration: BrokerRegistration) -> bytes:
    """Return the value of a broker's registration."""
    return json_bytes(
        {
            "broker_epoch": registration.broker_epoch,
            "directory_ids": [str(directory_id) for directory_id in registration.directory_ids],
            "rack": registration.rack,
            "features": _encode_ranges(registration.features),
        }
    )


def decode_registration(key: RegistrationKey, value: bytes, mod_revision: int) -> BrokerRegistration:
    """Return what is remembered of a broker.

    Raises:
        BadValue: the value is not a registration.
    """
    fields = JsonFields(str(key), value)
    return BrokerRegistration(
        broker_id=key.broker_id,
        broker_epoch=fields.integer("broker_epoch"),
        directory_ids=fields.uuids("directory_ids"),
        rack=None if fields.json.get("rack") is None else fields.text("rack"),
        features=_decode_ranges(fields),
        revision=mod_revision,
    )


def _encode_ranges(ranges: FeatureRanges) -> Json:
    return {each.name: [each.min_level, each.max_level] for each in ranges}


def _decode_ranges(fields: JsonFields) -> FeatureRanges:
    if "features" not in fields.json:
        return UNSAID
    ranges = fields.pairs_by_name("features")
    return tuple(FeatureRange(name, levels[0], levels[1]) for name, levels in sorted(ranges.items()))


def _decode_endpoint(where: str, item: object) -> Endpoint:
    fields = JsonFields(where, item)
    return Endpoint(
        listener=fields.text("listener"),
        host=fields.text("host"),
        port=fields.integer("port"),
        security_protocol=fields.text("security_protocol"),
    )


def encode_controller(controller_id: int, rpc_address: str) -> bytes:
    """Return the value of the key that the leading controller holds."""
    return json_bytes({"id": controller_id, "rpc_address": rpc_address})


def decode_controller(value: bytes, create_revision: int) -> ControllerLeader:
    """Return the leading controller.

    Raises:
        BadValue: the value is not a controller.
    """
    fields = JsonFields("controller", value)
    return ControllerLeader(id=fields.integer("id"), epoch=create_revision, rpc_address=fields.text("rpc_address"))


def encode_topic(record: TopicRecord) -> bytes:
    """Return the value of a topic's key."""
    value: dict[str, object] = {
        "id": str(record.id),
        "partitions": record.partition_count,
        "configs": dict(record.configs),
    }
    if record.origin is not None:
        value["origin"] = {
            "link": str(record.origin.link_id),
            "topic": record.origin.source_topic,
            "topic_id": str(record.origin.source_topic_id),
        }
    return json_bytes(value)


def decode_topic(name: str, value: bytes) -> TopicRecord:
    """Return what stands under a topic's key.

    Raises:
        BadValue: the value is not a topic.
    """
    fields = JsonFields(f"topic {name}", value)
    return TopicRecord(
        id=fields.uuid("id"),
        partition_count=fields.integer("partitions"),
        configs=fields.texts("configs"),
        origin=_decode_origin(f"topic {name}.origin", fields.json.get("origin")),
    )


def _decode_origin(where: str, item: object) -> TopicOrigin | None:
    if item is None:
        return None
    fields = JsonFields(where, item)
    return TopicOrigin(
        link_id=fields.uuid("link"), source_topic=fields.text("topic"), source_topic_id=fields.uuid("topic_id")
    )


def encode_link(link: Link) -> bytes:
    """Return the value of a link's key."""
    return json_bytes(
        {
            "id": str(link.id),
            "source_cluster_id": link.source_cluster_id,
            "bootstrap_servers": link.bootstrap_servers,
            "settings": dict(link.settings),
            "topics": link.topics,
            "groups": link.groups,
            "paused": link.paused,
            "bytes_per_second": link.bytes_per_second,
            "properties": dict(link.properties),
            "promoted_topics": sorted(link.promoted_topics),
        }
    )


def decode_link(key: LinkKey, value: bytes, mod_revision: int) -> Link:
    """Return the link under `key`.

    Raises:
        BadValue: the value is not a link.
    """
    fields = JsonFields(str(key), value)
    return Link(
        name=key.name,
        id=fields.uuid("id"),
        source_cluster_id=fields.text("source_cluster_id"),
        bootstrap_servers=fields.list_of_texts("bootstrap_servers"),
        settings=fields.texts("settings"),
        topics=fields.list_of_texts("topics"),
        groups=fields.list_of_texts("groups"),
        paused=fields.flag("paused"),
        bytes_per_second=None if fields.json.get("bytes_per_second") is None else fields.integer("bytes_per_second"),
        properties=fields.texts("properties") if "properties" in fields.json else {},
        promoted_topics=frozenset(
            fields.list_of_texts("promoted_topics") if "promoted_topics" in fields.json else ()
        ),
        revision=mod_revision,
    )


def encode_partition(partition: PartitionState) -> bytes:
    """Return the value of a partition's key."""
    value: dict[str, object] = {
        "replicas": partition.replicas,
        "isr": partition.isr,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "leader_broker_epoch": partition.leader_broker_epoch,
        "adding": partition.adding,
        "removing": partition.removing,
        "eligible_leaders": partition.eligible_leaders,
    }
    if partition.link is not None:
        value["link"] = str(partition.link)
        value["set_aside_up_to"] = partition.set_aside_up_to
    return json_bytes(value)


def decode_partition(key: PartitionKey, value: bytes, mod_revision: int) -> PartitionState:
    """Return the partition under `key`; its partition epoch is the key's mod revision.

    Raises:
        BadValue: the value is not a partition.
    """
    fields = JsonFields(str(key), value)
    return PartitionState(
        topic_id=key.topic_id,
        index=key.index,
        replicas=fields.integers("replicas"),
        isr=fields.integers("isr"),
        leader=fields.integer("leader"),
        leader_epoch=fields.integer("leader_epoch"),
        leader_broker_epoch=fields.integer("leader_broker_epoch", NO_EPOCH),
        adding=fields.integers("adding"),
        removing=fields.integers("removing"),
        partition_epoch=mod_revision,
        eligible_leaders=fields.integers("eligible_leaders", ()),
        link=None if fields.json.get("link") is None else fields.uuid("link"),
        set_aside_up_to=fields.integer("set_aside_up_to", NO_EPOCH),
    )


def encode_shard(shard: Shard) -> bytes:
    """Return the value of a shard's key."""
    return json_bytes(
        {
            "coordinator": shard.coordinator,
            "coordinator_epoch": shard.coordinator_epoch,
            "producer_id": shard.producer_id,
            "producer_epoch": shard.producer_epoch,
        }
    )


def decode_shard(key: ShardKey, value: bytes, mod_revision: int) -> Shard:
    """Return the shard under `key`.

    Raises:
        BadValue: the value is not a shard.
    """
    fields = JsonFields(str(key), value)
    return Shard(
        topic_partition=TopicPartition(key.topic, key.index),
        coordinator=fields.integer("coordinator"),
        coordinator_epoch=fields.integer("coordinator_epoch"),
        producer_id=fields.integer("producer_id"),
        producer_epoch=fields.integer("producer_epoch"),
        revision=mod_revision,
    )


def encode_config(configs: Mapping[str, str]) -> bytes:
    """Return the value of a broker's dynamic settings, or a group's."""
    return json_bytes({"configs": dict(configs)})


def decode_config(value: bytes) -> Mapping[str, str]:
    """Return a broker's dynamic settings, or a group's.

    Raises:
        BadValue: the value holds no settings.
    """
    return JsonFields("configs", value).texts("configs")


def encode_cluster_id(cluster_id: str) -> bytes:
    """Return the value of the cluster id's key."""
    return json_bytes({"cluster_id": cluster_id})


def decode_cluster_id(value: bytes) -> str:
    """Return the cluster id.

    Raises:
        BadValue: the value holds none.
    """
    return JsonFields("cluster id", value).text("cluster_id")


def encode_features(levels: Mapping[str, int]) -> bytes:
    """Return the value of the finalised levels."""
    return json_bytes({"version": FEATURES_VERSION, "levels": dict(levels)})


def decode_features(value: bytes, mod_revision: int) -> FinalizedFeatures:
    """Return the finalised levels; their epoch is the key's mod revision.

    Raises:
        BadValue: the value holds none, or is of a later version.
    """
    fields = JsonFields("features", value)
    if (version := fields.integer("version")) != FEATURES_VERSION:
        raise UnknownFormat(f"features: of version {version}, and this release reads version {FEATURES_VERSION}")
    return FinalizedFeatures(
        levels={OTTLA_VERSION: FIRST_LEVEL, **fields.integers_by_name("levels")}, epoch=mod_revision
    )


def encode_recovery(recovery: Recovery) -> bytes:
    """Return the value of the last recovery."""
    return json_bytes({"number": recovery.number, "unfinished": recovery.is_unfinished})


def decode_recovery(value: bytes) -> Recovery:
    """Return the last recovery.

    Raises:
        BadValue: the value is malformed.
    """
    fields = JsonFields("recovery", value)
    return Recovery(number=fields.integer("number"), is_unfinished=fields.flag("unfinished"))


def encode_next_producer_id(next_producer_id: int) -> bytes:
    """Return the value that records the first producer id never handed out."""
    return json_bytes({"next": next_producer_id})


def decode_next_producer_id(value: bytes) -> int:
    """Return the first producer id never handed out.

    Raises:
        BadValue: the value holds none.
    """
    return JsonFields("producer ids", value).integer("next")
