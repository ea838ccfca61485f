"""Requests of every API about things that a client may or may not do something with, and what their answers tell.

`PROBES` has at least one request for each API that brokers serve. Each names a topic and a group of which the client
may have rights (`SEEN`, `MINE`), others of which it has none (`HIDDEN`, `THEIRS`), and a topic that is not there.
What is compared of an answer is who is named in it, and with which error: `told`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any, Final
from uuid import UUID

from kio.index import load_request_schema
from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

from ottla_core.wire.conversion import entity_in, message_of
from tests.support.messages.record_batches import batch_of

SEEN, HIDDEN, ABSENT = "seen", "hidden", "absent"
DOOMED = "seen-doomed"
"""A topic that clients with enough rights delete; it is made anew before each round."""
MINE, THEIRS = "mine", "theirs"
"""Groups and transactional ids."""
TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=10))
SECOND: Final = i32Timedelta.parse(timedelta(seconds=1))
PARTITION: Final = ({"partition_index": 0},)


@dataclasses.dataclass(frozen=True)
class Things:
    """What probes are about that differs between clusters.

    Attributes:
        ids: of topics, by name.
        broker_id: of the broker that is asked.
    """

    ids: Mapping[str, UUID]
    broker_id: int

    @property
    def names(self) -> Mapping[UUID, str]:
        return {topic_id: name for name, topic_id in self.ids.items()}


@dataclasses.dataclass(frozen=True)
class Probe:
    """One request.

    Attributes:
        name: for people.
        api_key: of its API.
        version: of the request.
        values: returns the fields of the request that are not as by default.
    """

    name: str
    api_key: int
    version: int
    values: Callable[[Things], Mapping[str, Any]]

    def request(self, things: Things) -> Any:
        return made(load_request_schema(self.api_key, self.version), self.values(things))


def made(message: type[Entity], values: Mapping[str, Any]) -> Any:
    """A message of these values; messages in it are mappings."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        inner = entity_in(message, name)
        if inner is not None and isinstance(value, list | tuple):
            fields[name] = tuple(made(inner, each) for each in value)
        elif inner is not None and isinstance(value, Mapping):
            fields[name] = made(inner, value)
        else:
            fields[name] = value
    return message_of(message, **fields)


def _topics(**more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in (SEEN, HIDDEN, ABSENT)]


def _always(values: Mapping[str, Any]) -> Callable[[Things], Mapping[str, Any]]:
    return lambda _things: values


def _configs(operation: str) -> Callable[[Things], Mapping[str, Any]]:
    entries_of: Mapping[str, Mapping[str, Any]] = {
        "describe": {"configuration_keys": ("retention.ms", "log.retention.ms")},
        "alter": {"configs": ({"name": "retention.ms", "value": "604800000"},)},
        "increment": {"configs": ({"name": "retention.ms", "value": "604800000", "config_operation": 0},)},
    }
    entries = entries_of[operation]
    names = [(2, SEEN), (2, HIDDEN), (2, ABSENT)]
    if operation == "describe":
        names += [(4, "1"), (32, MINE), (32, THEIRS), (16, "subscription")]

    def values(things: Things) -> Mapping[str, Any]:
        resources = [
            {"resource_type": kind, "resource_name": str(things.broker_id) if kind == 4 else name, **entries}
            for kind, name in names
        ]
        return {"resources": resources, **({} if operation == "describe" else {"validate_only": True})}

    return values


_RECORDS: Final = batch_of([b"probe"], key=b"k").encode()
_MEMBER: Final = {"member_id": "nobody", "generation_id": 1}
_FETCHED: Final = {"fetch_offset": 0, "partition_max_bytes": 100, "current_leader_epoch": -1}
_COMMITTED: Final = ({"partition_index": 0, "committed_offset": 0, "committed_metadata": ""},)
_PRODUCER: Final = {"producer_id": 7, "producer_epoch": 0}
"""One that there is not."""
_BINDING: Final = {
    "resource_type": 2,
    "resource_name": "elsewhere",
    "resource_pattern_type": 3,
    "principal": "User:nobody",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_ANY_BINDING: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": "elsewhere",
    "pattern_type_filter": 3,
    "operation": 1,
    "permission_type": 1,
}


def _both_groups(name: str, api_key: int, version: int, **more: Any) -> list[Probe]:
    return [
        Probe(f"{name} {group}", api_key, version, _always({"group_id": group, **more})) for group in (MINE, THEIRS)
    ]


PROBES: Final[Sequence[Probe]] = (
    Probe(
        "Produce",
        0,
        9,
        _always(
            {
                "acks": -1,
                "timeout": TIMEOUT,
                "topic_data": _topics(partition_data=({"index": 0, "records": _RECORDS},)),
            }
        ),
    ),
    Probe(
        "Fetch",
        1,
        12,
        _always(
            {
                "replica_id": -1,
                "max_bytes": 1000,
                "topics": [
                    {"topic": name, "partitions": ({"partition": 0, **_FETCHED},)} for name in (SEEN, HIDDEN, ABSENT)
                ],
            }
        ),
    ),
    Probe(
        "Fetch by id",
        1,
        15,
        lambda things: {
            "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "max_bytes": 1000,
            "topics": [
                {"topic_id": things.ids[name], "partitions": ({"partition": 0, **_FETCHED},)}
                for name in (SEEN, HIDDEN)
            ],
        },
    ),
    Probe(
        "ListOffsets",
        2,
        7,
        _always({"replica_id": -1, "topics": _topics(partitions=({"partition_index": 0, "timestamp": -1},))}),
    ),
    Probe("Metadata", 3, 12, _always({"topics": _topics(), "include_topic_authorized_operations": True})),
    Probe("Metadata of all", 3, 12, _always({"topics": None, "include_topic_authorized_operations": True})),
    Probe(
        "Metadata by id",
        3,
        12,
        lambda things: {"topics": [{"name": None, "topic_id": things.ids[name]} for name in (SEEN, HIDDEN)]},
    ),
    Probe(
        "Metadata of the cluster",
        3,
        8,
        _always({"topics": (), "include_cluster_authorized_operations": True}),
    ),
    *(
        Probe(
            f"OffsetCommit {group}",
            8,
            8,
            _always(
                {
                    "group_id": group,
                    "generation_id_or_member_epoch": -1,
                    "member_id": "",
                    "topics": _topics(partitions=_COMMITTED),
                }
            ),
        )
        for group in (MINE, THEIRS)
    ),
    Probe(
        "OffsetFetch",
        9,
        8,
        _always(
            {
                "groups": [
                    {"group_id": MINE, "topics": _topics(partition_indexes=(0,))},
                    {"group_id": THEIRS, "topics": _topics(partition_indexes=(0,))},
                ]
            }
        ),
    ),
    Probe(
        "OffsetFetch of all",
        9,
        8,
        _always({"groups": [{"group_id": MINE, "topics": None}, {"group_id": THEIRS, "topics": None}]}),
    ),
    Probe("OffsetFetch of one", 9, 5, _always({"group_id": MINE, "topics": _topics(partition_indexes=(0,))})),
    Probe("FindCoordinator", 10, 4, _always({"key_type": 0, "coordinator_keys": (MINE, THEIRS)})),
    Probe("FindCoordinator of transactions", 10, 4, _always({"key_type": 1, "coordinator_keys": (MINE, THEIRS)})),
    *_both_groups(
        "JoinGroup",
        11,
        5,
        session_timeout=i32Timedelta.parse(timedelta(seconds=10)),
        rebalance_timeout=SECOND,
        member_id="",
        protocol_type="consumer",
        protocols=({"name": "range", "metadata": b""},),
    ),
    *_both_groups("Heartbeat", 12, 4, **_MEMBER),
    *_both_groups("LeaveGroup", 13, 4, members=({"member_id": "nobody"},)),
    *_both_groups("SyncGroup", 14, 4, **_MEMBER),
    Probe("DescribeGroups", 15, 5, _always({"groups": (MINE, THEIRS), "include_authorized_operations": True})),
    Probe("ListGroups", 16, 4, _always({})),
    Probe("ApiVersions", 18, 0, _always({})),
    Probe(
        "CreateTopics",
        19,
        5,
        _always(
            {
                "timeout": TIMEOUT,
                "validate_only": True,
                "topics": [
                    {"name": name, "num_partitions": 1, "replication_factor": 1}
                    for name in ("seen-new", "hidden-new")
                ],
            }
        ),
    ),
    Probe(
        "DeleteTopics",
        20,
        5,
        _always({"timeout": TIMEOUT, "topic_names": (DOOMED, HIDDEN, ABSENT)}),
    ),
    Probe(
        "DeleteTopics by id",
        20,
        6,
        lambda things: {"timeout": TIMEOUT, "topics": [{"name": None, "topic_id": things.ids[HIDDEN]}]},
    ),
    Probe(
        "DeleteTopics by what is no name",
        20,
        6,
        lambda things: {
            "timeout": TIMEOUT,
            "topics": [
                {"name": ABSENT, "topic_id": things.ids[HIDDEN]},
                {"name": SEEN, "topic_id": things.ids[HIDDEN]},
                {"name": None, "topic_id": None},
                {"name": None, "topic_id": UUID(int=1)},
                {"name": ABSENT, "topic_id": None},
                {"name": HIDDEN, "topic_id": None},
                {"name": HIDDEN, "topic_id": None},
            ],
        },
    ),
    Probe(
        "DeleteRecords",
        21,
        2,
        _always({"timeout": TIMEOUT, "topics": _topics(partitions=({"partition_index": 0, "offset": 0},))}),
    ),
    Probe("InitProducerId", 22, 4, _always({"transactional_id": None, "producer_id": -1, "producer_epoch": -1})),
    *(
        Probe(
            f"InitProducerId of {transactional_id}",
            22,
            4,
            _always(
                {
                    "transactional_id": transactional_id,
                    "producer_id": 7,
                    "producer_epoch": 0,
                    "transaction_timeout": SECOND,
                }
            ),
        )
        for transactional_id in (MINE, THEIRS)
    ),
    *(
        Probe(
            f"AddPartitionsToTxn of {transactional_id} with {len(names)} topics",
            24,
            3,
            _always(
                {
                    "v3_and_below_transactional_id": transactional_id,
                    "v3_and_below_producer_id": 7,
                    "v3_and_below_producer_epoch": 0,
                    "v3_and_below_topics": [{"name": name, "partitions": (0,)} for name in names],
                }
            ),
        )
        for transactional_id, names in ((MINE, (SEEN,)), (MINE, (SEEN, HIDDEN, ABSENT)), (THEIRS, (SEEN,)))
    ),
    Probe(
        "AddPartitionsToTxn of a broker",
        24,
        5,
        _always(
            {
                "transactions": (
                    {
                        **_PRODUCER,
                        "transactional_id": MINE,
                        "verify_only": True,
                        "topics": ({"name": SEEN, "partitions": (0,)},),
                    },
                )
            }
        ),
    ),
    *(
        Probe(
            f"AddOffsetsToTxn of {transactional_id} for {group}",
            25,
            3,
            _always({"transactional_id": transactional_id, **_PRODUCER, "group_id": group}),
        )
        for transactional_id, group in ((MINE, MINE), (MINE, THEIRS), (THEIRS, MINE))
    ),
    *(
        Probe(
            f"EndTxn of {transactional_id}",
            26,
            4,
            _always({"transactional_id": transactional_id, **_PRODUCER, "committed": False}),
        )
        for transactional_id in (MINE, THEIRS)
    ),
    Probe(
        "WriteTxnMarkers",
        27,
        1,
        _always(
            {
                "markers": (
                    {
                        **_PRODUCER,
                        "transaction_result": False,
                        "coordinator_epoch": 0,
                        "topics": ({"name": ABSENT, "partition_indexes": (0,)},),
                    },
                )
            }
        ),
    ),
    *(
        Probe(
            f"TxnOffsetCommit of {transactional_id} for {group}",
            28,
            3,
            _always(
                {
                    "transactional_id": transactional_id,
                    "group_id": group,
                    **_PRODUCER,
                    "generation_id": -1,
                    "member_id": "",
                    "topics": _topics(partitions=_COMMITTED),
                }
            ),
        )
        for transactional_id, group in ((MINE, MINE), (MINE, THEIRS), (THEIRS, MINE))
    ),
    Probe(
        "OffsetForLeaderEpoch",
        23,
        4,
        _always(
            {
                "replica_id": -1,
                "topics": [
                    {
                        "topic": name,
                        "partitions": ({"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1},),
                    }
                    for name in (SEEN, HIDDEN, ABSENT)
                ],
            }
        ),
    ),
    Probe("DescribeAcls", 29, 3, _always(_ANY_BINDING)),
    Probe("CreateAcls", 30, 3, _always({"creations": (_BINDING,)})),
    Probe("DeleteAcls", 31, 3, _always({"filters": (_ANY_BINDING,)})),
    Probe("DescribeConfigs", 32, 4, _configs("describe")),
    Probe("AlterConfigs", 33, 2, _configs("alter")),
    Probe(
        "AlterReplicaLogDirs",
        34,
        2,
        _always({"dirs": ({"path": "/nowhere", "topics": [{"name": SEEN, "partitions": (0,)}]},)}),
    ),
    Probe("DescribeLogDirs", 35, 4, _always({"topics": [{"topic": SEEN, "partitions": (0,)}]})),
    Probe(
        "CreatePartitions",
        37,
        3,
        _always({"timeout": TIMEOUT, "validate_only": True, "topics": _topics(count=2, assignments=None)}),
    ),
    Probe("DeleteGroups", 42, 2, _always({"groups_names": ("mine-doomed", THEIRS)})),
    Probe(
        "ElectLeaders",
        43,
        2,
        _always({"election_type": 0, "timeout": TIMEOUT, "topic_partitions": [{"topic": SEEN, "partitions": (0,)}]}),
    ),
    Probe("IncrementalAlterConfigs", 44, 1, _configs("increment")),
    Probe(
        "AlterPartitionReassignments",
        45,
        0,
        _always(
            {
                "timeout": TIMEOUT,
                "topics": [{"name": SEEN, "partitions": ({"partition_index": 0, "replicas": None},)}],
            }
        ),
    ),
    Probe("ListPartitionReassignments", 46, 0, _always({"timeout": TIMEOUT, "topics": None})),
    *(
        Probe(
            f"OffsetDelete {group}",
            47,
            0,
            _always({"group_id": group, "topics": _topics(partitions=PARTITION)}),
        )
        for group in (MINE, THEIRS)
    ),
    Probe("DescribeClientQuotas", 48, 1, _always({"components": (), "strict": False})),
    Probe(
        "AlterClientQuotas",
        49,
        1,
        _always(
            {
                "entries": (
                    {
                        "entity": ({"entity_type": "user", "entity_name": "nobody"},),
                        "ops": ({"key": "producer_byte_rate", "value": 0.0, "remove": True},),
                    },
                ),
                "validate_only": False,
            }
        ),
    ),
    Probe("DescribeUserScramCredentials", 50, 0, _always({"users": ({"name": "nobody"},)})),
    Probe("AlterUserScramCredentials", 51, 0, _always({"deletions": ({"name": "nobody", "mechanism": 1},)})),
    Probe(
        "UpdateFeatures",
        57,
        1,
        _always(
            {
                "timeout": TIMEOUT,
                "validate_only": True,
                "feature_updates": ({"feature": "no.such", "max_version_level": 1, "upgrade_type": 1},),
            }
        ),
    ),
    Probe("DescribeCluster", 60, 0, _always({"include_cluster_authorized_operations": True})),
    Probe("DescribeProducers", 61, 0, _always({"topics": _topics(partition_indexes=(0,))})),
    Probe("DescribeTransactions", 65, 0, _always({"transactional_ids": (MINE, THEIRS)})),
    Probe("ListTransactions", 66, 0, _always({})),
    Probe("UnregisterBroker", 64, 0, _always({"broker_id": 99})),
    *_both_groups(
        "ConsumerGroupHeartbeat",
        68,
        0,
        member_id="nobody",
        member_epoch=5,
        topic_partitions=None,
        subscribed_topic_names=(SEEN,),
    ),
    Probe(
        "ConsumerGroupHeartbeat hidden",
        68,
        0,
        _always(
            {
                "group_id": MINE,
                "member_id": "nobody",
                "member_epoch": 5,
                "topic_partitions": None,
                "subscribed_topic_names": (SEEN, HIDDEN),
            }
        ),
    ),
    Probe(
        "ConsumerGroupDescribe", 69, 0, _always({"group_ids": (MINE, THEIRS), "include_authorized_operations": True})
    ),
    Probe("ListConfigResources", 74, 0, _always({})),
    Probe("DescribeTopicPartitions", 75, 0, _always({"topics": _topics(), "response_partition_limit": 100})),
    Probe("DescribeTopicPartitions of all", 75, 0, _always({"topics": (), "response_partition_limit": 100})),
)

_COMPARED: Final = frozenset(
    {
        "error_code",
        "partition_error_code",
        "transactional_id",
        "topic_config_error_code",
        "name",
        "topic",
        "topic_name",
        "resource_name",
        "resource_type",
        "group_id",
        "key",
        "partition_index",
        "index",
        "partition",
        "authorized_operations",
        "topic_authorized_operations",
        "cluster_authorized_operations",
        "topic_id",
    }
)


def told(response: Any, things: Things) -> Any:
    """What an answer says of whom: names, errors, and rights; without what differs between clusters."""
    if dataclasses.is_dataclass(response):
        found: dict[str, Any] = {}
        for field in dataclasses.fields(response):
            value = getattr(response, field.name)
            if field.name == "configs":
                continue
            if isinstance(value, tuple) and any(dataclasses.is_dataclass(each) for each in value):
                found[field.name] = sorted((told(each, things) for each in value), key=repr)
            elif field.name in _COMPARED:
                found[field.name] = _plain(value, things)
        return found
    return _plain(response, things)


def _plain(value: Any, things: Things) -> Any:
    if isinstance(value, UUID):
        return things.names.get(value, "another id" if value.int else None)
    return value.name if isinstance(value, Enum) else value
