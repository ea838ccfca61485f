"""Topics, settings and descriptions on two brokers, beyond what the suites of the admin clients check.

The brokers are this file's own, since it changes settings that count for every topic of a cluster.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    create_topic_request,
    delete_topic_request,
    init_producer_id_request,
    produce_request,
    produced,
)
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.messages.record_batches import TIMESTAMP_MS, batch_of
from tests.support.messages.sparse_request import sparse_request

pytestmark = pytest.mark.slow  # the first test waits for the cluster

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OF_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, BUILT_IN = 1, 2, 3, 4, 5
STATIC_SETTINGS = {"num.partitions": "3", "log.retention.hours": "100"}
BROKER_IDS = (1, 2)
CLUSTER_ID_CHARACTERS = 22
IDS_PER_BROKER = 5
EVERY_BROKER = ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    arguments = [part for key, value in STATIC_SETTINGS.items() for part in ("--set", f"broker:{key}={value}")]
    arguments += ["--set", f"controller:num.partitions={STATIC_SETTINGS['num.partitions']}"]
    arguments += ["--set", "broker-2:auto.create.topics.enable=false", "--set", "broker-2:broker.rack=b"]
    with OttlaCluster(tmp_path_factory.mktemp("two-brokers") / "cluster", brokers=2, arguments=arguments) as running:
        yield running


@pytest.fixture
def clients(cluster: OttlaCluster) -> Iterator[dict[int, RawClient]]:
    """A connection to each broker, by its id."""
    ports = {service.id: service.port for service in cluster.services if service.role == "broker"}
    opened = {broker: RawClient("127.0.0.1", port) for broker, port in sorted(ports.items())}
    yield opened
    for client in opened.values():
        client.close()


@pytest.fixture
def client(clients: dict[int, RawClient]) -> RawClient:
    """A connection to the first broker."""
    return clients[1]


def fresh_name() -> str:
    return f"described-{uuid.uuid4().hex[:12]}"


def make_topic(client: RawClient, *, partitions: int = 1) -> str:
    """Creates a topic that the first broker leads, and returns its name."""
    topic, assignments = fresh_name(), dict.fromkeys(range(partitions), (1,))
    request = create_topic_request(topic, partitions=-1, replication_factor=-1, assignments=assignments)
    (answer,) = client.ask(request).topics
    assert answer.error_code is ErrorCode.none, answer.error_message
    return topic


def metadata(client: RawClient, *, version: int = 12, **fields: Any) -> Any:
    return client.ask(
        sparse_request("metadata", version, **{"topics": [], "allow_auto_topic_creation": False, **fields})
    )


# Metadata


def test_topics_of_one_request_are_answered_with_the_settings_of_each(client: RawClient) -> None:
    names = [fresh_name() for _ in range(4)]
    configs: list[dict[str, str]] = [{}, {"retention.ms": "7"}, {"retention.ms": "8"}, {}]
    (first, *others) = (
        create_topic_request(name, partitions=1, replication_factor=1, configs=own)
        for name, own in zip(names, configs, strict=True)
    )
    answers = client.ask(
        replace(first, topics=(*first.topics, *(topic for request in others for topic in request.topics)))
    ).topics
    told = [
        next((config.value, config.config_source) for config in answer.configs if config.name == "retention.ms")
        for answer in answers
    ]
    assert [answer.name for answer in answers] == names
    default = ("360000000", STATIC_BROKER)  # 100 hours
    assert told == [default, ("7", OF_TOPIC), ("8", OF_TOPIC), default]


def test_metadata_names_the_brokers_and_a_cluster_id_that_all_agree_on(clients: dict[int, RawClient]) -> None:
    answers = {broker: metadata(client) for broker, client in clients.items()}
    assert {member.node_id for member in answers[1].brokers} == set(BROKER_IDS)
    assert {member.node_id: member.rack for member in answers[2].brokers} == {1: None, 2: "b"}
    assert answers[1].cluster_id == answers[2].cluster_id
    assert len(answers[1].cluster_id) == CLUSTER_ID_CHARACTERS
    assert answers[1].controller_id in BROKER_IDS
    described = clients[1].ask(sparse_request("describe_cluster", 1, endpoint_type=1))
    assert described.cluster_id == answers[1].cluster_id
    assert {member.broker_id for member in described.brokers} == set(BROKER_IDS)


def test_metadata_by_name_by_id_and_of_all_agree(client: RawClient) -> None:
    topic = make_topic(client, partitions=2)
    (by_name,) = metadata(client, topics=[{"name": topic}]).topics
    (by_id,) = metadata(client, topics=[{"topic_id": by_name.topic_id, "name": None}]).topics
    (of_all,) = (found for found in metadata(client, topics=None).topics if found.name == topic)
    assert by_name.error_code is ErrorCode.none
    assert by_name == by_id == of_all
    assert sorted(partition.partition_index for partition in by_name.partitions) == [0, 1]


def test_metadata_of_nothing_and_of_what_is_not_there(client: RawClient) -> None:
    assert metadata(client, topics=[]).topics == ()
    unknown_id = uuid.uuid4()
    by_name, invalid, by_id = metadata(
        client, topics=[{"name": "no-such-topic"}, {"name": "a b"}, {"topic_id": unknown_id, "name": None}]
    ).topics
    assert (by_name.name, by_name.error_code) == ("no-such-topic", ErrorCode.unknown_topic_or_partition)
    assert (invalid.name, invalid.error_code) == ("a b", ErrorCode.invalid_topic_exception)
    assert (by_id.topic_id, by_id.error_code) == (unknown_id, ErrorCode.unknown_topic_id)


def test_asking_for_a_topic_creates_it_where_client_and_broker_allow_it(clients: dict[int, RawClient]) -> None:
    topic = fresh_name()
    for broker, allowed in ((1, False), (2, True)):
        (absent,) = metadata(clients[broker], topics=[{"name": topic}], allow_auto_topic_creation=allowed).topics
        assert absent.error_code is ErrorCode.unknown_topic_or_partition

    def created() -> Any:
        (found,) = metadata(clients[1], topics=[{"name": topic}], allow_auto_topic_creation=True).topics
        return found if found.error_code is ErrorCode.none else None

    found = eventually(created, f"{topic} is created")
    assert len(found.partitions) == int(STATIC_SETTINGS["num.partitions"])


def test_a_topic_with_an_invalid_name_is_never_created(client: RawClient) -> None:
    (answer,) = metadata(client, topics=[{"name": "not/valid"}], allow_auto_topic_creation=True).topics
    assert answer.error_code is ErrorCode.invalid_topic_exception


# Creating and growing topics


def replicas_of(client: RawClient, topic: str) -> dict[int, tuple[int, ...]]:
    (described,) = metadata(client, topics=[{"name": topic}]).topics
    return {partition.partition_index: partition.replica_nodes for partition in described.partitions}


def test_replicas_stand_where_the_request_says(client: RawClient) -> None:
    topic, wanted = fresh_name(), {0: (2, 1), 1: (1, 2), 2: (2, 1)}
    request = create_topic_request(topic, partitions=-1, replication_factor=-1, assignments=wanted)
    (answer,) = client.ask(request).topics
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (ErrorCode.none, 3, 2)
    assert replicas_of(client, topic) == wanted
    (described,) = metadata(client, topics=[{"name": topic}]).topics
    leaders = {partition.partition_index: partition.leader_id for partition in described.partitions}
    assert leaders == {index: replicas[0] for index, replicas in wanted.items()}, "the first replica leads"


def test_a_new_topic_is_spread_over_the_brokers(client: RawClient) -> None:
    topic = fresh_name()
    assert client.ask(create_topic_request(topic, partitions=6)).topics[0].error_code is ErrorCode.none
    holders = [replicas[0] for replicas in replicas_of(client, topic).values()]
    assert sorted(holders) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"replication_factor": 3}, ErrorCode.invalid_replication_factor),
        ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ({"partitions": 0}, ErrorCode.invalid_partitions),
        ({"assignments": {0: (1,)}}, ErrorCode.invalid_request),
        (
            {"partitions": -1, "replication_factor": -1, "assignments": {0: (9,)}},
            ErrorCode.invalid_replica_assignment,
        ),
        (
            {"partitions": -1, "replication_factor": -1, "assignments": {1: (1,)}},
            ErrorCode.invalid_replica_assignment,
        ),
        ({"configs": {"no.such.config": "1"}}, ErrorCode.invalid_config),
        ({"configs": {"retention.ms": "long"}}, ErrorCode.invalid_config),
    ],
    ids=str,
)
@pytest.mark.parametrize("validate_only", [False, True], ids=["create", "validate"])
def test_a_topic_that_cannot_be_is_refused(
    client: RawClient, fields: dict[str, Any], code: ErrorCode, validate_only: bool
) -> None:
    topic = fresh_name()
    (answer,) = client.ask(create_topic_request(topic, **fields, validate_only=validate_only)).topics
    assert answer.error_code is code
    assert answer.error_message
    assert metadata(client, topics=[{"name": topic}]).topics[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("validate_only", [False, True], ids=["create", "validate"])
def test_the_answer_to_a_creation_has_the_settings_that_result(client: RawClient, validate_only: bool) -> None:
    topic = fresh_name()
    request = create_topic_request(
        topic, partitions=-1, replication_factor=-1, configs={"segment.bytes": "2000000"}, validate_only=validate_only
    )
    (answer,) = client.ask(request).topics
    partitions = int(STATIC_SETTINGS["num.partitions"])
    outcome = (answer.error_code, answer.num_partitions, answer.replication_factor)
    assert outcome == (ErrorCode.none, partitions, len(BROKER_IDS))
    configs = {config.name: config for config in answer.configs}
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == ("2000000", OF_TOPIC)
    assert configs["cleanup.policy"].value == "delete"
    expected = ErrorCode.unknown_topic_or_partition if validate_only else ErrorCode.none
    assert metadata(client, topics=[{"name": topic}]).topics[0].error_code is expected


def test_one_request_creates_what_it_can(client: RawClient) -> None:
    existing, fresh = make_topic(client), fresh_name()
    wanted = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (existing, fresh, "a b")]
    answers = client.ask(sparse_request("create_topics", 7, topics=wanted, timeout=10_000)).topics
    assert {answer.name: answer.error_code for answer in answers} == {
        existing: ErrorCode.topic_already_exists,
        fresh: ErrorCode.none,
        "a b": ErrorCode.invalid_topic_exception,
    }


def grow(client: RawClient, topic: str, count: int, assignments: list[list[int]] | None = None, **fields: Any) -> Any:
    new = None if assignments is None else [{"broker_ids": brokers} for brokers in assignments]
    wanted = [{"name": topic, "count": count, "assignments": new}]
    (answer,) = client.ask(sparse_request("create_partitions", 3, topics=wanted, timeout=10_000, **fields)).results
    return answer


def test_partitions_are_added_where_the_request_says(client: RawClient) -> None:
    topic = make_topic(client)
    before = replicas_of(client, topic)
    assert grow(client, topic, 3, [[2], [1]], validate_only=True).error_code is ErrorCode.none
    assert replicas_of(client, topic) == before, "validation alone adds nothing"
    assert grow(client, topic, 3, [[2], [1]]).error_code is ErrorCode.none
    assert replicas_of(client, topic) == {**before, 1: (2,), 2: (1,)}


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (1, None, ErrorCode.invalid_partitions),
        (2, None, ErrorCode.invalid_partitions),
        (4, [[1]], ErrorCode.invalid_replica_assignment),
        (3, [[7]], ErrorCode.invalid_replica_assignment),
    ],
)
def test_a_topic_does_not_shrink_nor_grow_onto_brokers_that_are_not_there(
    client: RawClient, count: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    topic = make_topic(client, partitions=2)
    assert grow(client, topic, count, assignments).error_code is code
    assert len(replicas_of(client, topic)) == 2


def test_new_partitions_take_records_on_whichever_broker_they_are(clients: dict[int, RawClient]) -> None:
    topic = make_topic(clients[1])
    assert grow(clients[1], topic, 3, [[2], [1]]).error_code is ErrorCode.none
    records = batch_of([b"v"]).encode()
    for partition, leader in ((1, 2), (2, 1)):
        other = 3 - leader
        eventually(
            lambda: _produce_code(clients[leader], topic, records, partition) is ErrorCode.none,  # noqa: B023
            f"partition {partition} takes records",
        )
        assert _produce_code(clients[other], topic, records, partition) is ErrorCode.not_leader_or_follower


def _produce_code(client: RawClient, topic: str, records: bytes, partition: int) -> ErrorCode:
    code = produced(client.ask(produce_request(topic, records, partition=partition))).error_code
    assert isinstance(code, ErrorCode)
    return code


# Settings


class Described(NamedTuple):
    """A setting as DescribeConfigs shows it; synonyms are (name, value, source)."""

    value: str | None
    source: int
    synonyms: tuple[tuple[str, str | None, int], ...]


def describe(client: RawClient, resource_type: int, name: str, *keys: str) -> dict[str, Described]:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys or None}
    request = sparse_request("describe_configs", 4, resources=[resource], include_synonyms=True)
    (answer,) = client.ask(request).results
    assert answer.error_code is ErrorCode.none, answer.error_message
    return {
        config.name: Described(
            config.value,
            config.config_source,
            tuple((synonym.name, synonym.value, synonym.source) for synonym in config.synonyms),
        )
        for config in answer.configs
    }


def alter(client: RawClient, resource_type: int, name: str, changes: Mapping[str, str | None]) -> None:
    """Sets these settings; None takes one back."""
    configs = [
        {"name": key, "value": value, "config_operation": DELETE if value is None else SET}
        for key, value in changes.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    (answer,) = client.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses
    assert answer.error_code is ErrorCode.none, answer.error_message


def test_dynamic_settings_of_brokers_change_the_defaults_of_topics_at_once(clients: dict[int, RawClient]) -> None:
    """This broker's dynamic setting, then the one for every broker, then the file's; the topic's own before them."""
    topic = make_topic(clients[1])
    file_says = ("log.retention.hours", STATIC_SETTINGS["log.retention.hours"], STATIC_BROKER)

    def retention(broker: int) -> Described:
        return describe(clients[broker], TOPIC, topic, "retention.ms")["retention.ms"]

    assert retention(1).value == str(100 * 3_600_000)
    assert retention(1).source == STATIC_BROKER
    assert file_says in retention(1).synonyms
    try:
        alter(clients[1], BROKER, EVERY_BROKER, {"log.retention.ms": "7000000"})
        assert (retention(1).value, retention(1).source) == ("7000000", DYNAMIC_DEFAULT)
        eventually(lambda: retention(2).value == "7000000", "the other broker goes by it too")
        alter(clients[1], BROKER, "1", {"log.retention.ms": "8000000"})
        assert (retention(1).value, retention(1).source) == ("8000000", DYNAMIC_BROKER)
        assert retention(1).synonyms[:2] == (
            ("log.retention.ms", "8000000", DYNAMIC_BROKER),
            ("log.retention.ms", "7000000", DYNAMIC_DEFAULT),
        )
        assert retention(2).value == "7000000"
        alter(clients[1], TOPIC, topic, {"retention.ms": "9000000"})
        assert retention(1)[:2] == ("9000000", OF_TOPIC)
        assert retention(1).synonyms[0] == ("retention.ms", "9000000", OF_TOPIC)
    finally:
        alter(clients[1], BROKER, "1", {"log.retention.ms": None})
        alter(clients[1], BROKER, EVERY_BROKER, {"log.retention.ms": None})
    alter(clients[1], TOPIC, topic, {"retention.ms": None})
    assert (retention(1).value, retention(1).source) == (str(100 * 3_600_000), STATIC_BROKER)


def test_a_dynamic_default_governs_appends_at_once(client: RawClient) -> None:
    topic = make_topic(client)
    records = batch_of([bytes(2000)]).encode()
    try:
        alter(client, BROKER, EVERY_BROKER, {"message.max.bytes": "1000"})
        assert _produce_code(client, topic, records, 0) is ErrorCode.message_too_large
    finally:
        alter(client, BROKER, EVERY_BROKER, {"message.max.bytes": None})
    assert _produce_code(client, topic, records, 0) is ErrorCode.none


def test_a_broker_shows_its_settings_with_their_sources(client: RawClient) -> None:
    described = describe(client, BROKER, "1")
    assert described["num.partitions"][:2] == ("3", STATIC_BROKER)
    assert described["log.segment.bytes"][:2] == (str(1 << 30), BUILT_IN)
    alter(client, BROKER, EVERY_BROKER, {"log.segment.bytes": "500000000"})
    try:
        assert describe(client, BROKER, "1", "log.segment.bytes") == {
            "log.segment.bytes": Described(
                "500000000",
                DYNAMIC_DEFAULT,
                (
                    ("log.segment.bytes", "500000000", DYNAMIC_DEFAULT),
                    ("log.segment.bytes", str(1 << 30), BUILT_IN),
                ),
            )
        }
        assert describe(client, BROKER, EVERY_BROKER)["log.segment.bytes"][:2] == ("500000000", DYNAMIC_DEFAULT)
    finally:
        alter(client, BROKER, EVERY_BROKER, {"log.segment.bytes": None})
    assert describe(client, BROKER, EVERY_BROKER) == {}


@pytest.mark.parametrize(
    "configs",
    [
        {"log.segment.bytes": "much"},
        {"listeners": "PLAINTEXT://127.0.0.1:1"},
        {"no.such.setting": "1"},
        {"max.connections": "0"},
    ],
    ids=str,
)
def test_a_dynamic_setting_that_cannot_be_is_refused(client: RawClient, configs: dict[str, str]) -> None:
    changes = [{"name": name, "value": value} for name, value in configs.items()]
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": changes}
    (answer,) = client.ask(sparse_request("incremental_alter_configs", 1, resources=[resource])).responses
    assert answer.error_code in {ErrorCode.invalid_config, ErrorCode.invalid_request}
    assert answer.error_message


def test_limits_of_connections_change_while_the_broker_runs(client: RawClient, cluster: OttlaCluster) -> None:
    def is_served() -> bool:
        try:
            with RawClient.to(cluster.bootstrap) as another:
                another.ask(sparse_request("metadata", 12, topics=[]))
        except ConnectionError:
            return False
        return True

    assert is_served()
    try:
        alter(client, BROKER, "1", {"max.connections.per.ip": "1"})
        eventually(lambda: not is_served(), "no further connection from this address is taken")
        shown = describe(client, BROKER, "1", "max.connections.per.ip")["max.connections.per.ip"]
        assert shown[:2] == ("1", DYNAMIC_BROKER)
        assert [source for _, _, source in shown.synonyms] == [DYNAMIC_BROKER, BUILT_IN]
    finally:
        alter(client, BROKER, "1", {"max.connections.per.ip": None})
    eventually(is_served, "connections are taken again")


def test_what_nothing_follows_from_is_kept_with_a_note(client: RawClient, cluster: OttlaCluster) -> None:
    (controller,) = (service for service in cluster.services if service.role == "controller")
    kept = {"num.io.threads": "16", "background.threads": "20", "log.cleaner.threads": "2"}
    try:
        alter(client, BROKER, EVERY_BROKER, kept)
        shown = describe(client, BROKER, EVERY_BROKER)
        assert {name: shown[name][:2] for name in kept} == {n: (v, DYNAMIC_DEFAULT) for n, v in kept.items()}
        eventually(lambda: "nothing follows from them" in controller.log.read_text(), "the controller says so")
    finally:
        alter(client, BROKER, EVERY_BROKER, dict.fromkeys(kept))
    assert describe(client, BROKER, EVERY_BROKER) == {}


def test_only_a_broker_itself_describes_its_settings(client: RawClient) -> None:
    resource = {"resource_type": BROKER, "resource_name": "2"}
    (answer,) = client.ask(sparse_request("describe_configs", 4, resources=[resource])).results
    assert answer.error_code is ErrorCode.invalid_request


def test_list_config_resources_names_topics_and_brokers(client: RawClient) -> None:
    topic = make_topic(client)

    def listed(*types: int) -> set[tuple[int, str]]:
        answer = client.ask(sparse_request("list_config_resources", 1, resource_types=types))
        assert answer.error_code is ErrorCode.none
        return {(found.resource_type, found.resource_name) for found in answer.config_resources}

    assert {(TOPIC, topic), (BROKER, "1"), (BROKER, "2")} <= listed()
    assert listed(BROKER) == {(BROKER, "1"), (BROKER, "2")}
    assert {kind for kind, _ in listed(TOPIC)} == {TOPIC}


# Descriptions


def test_partitions_are_described_page_by_page(client: RawClient) -> None:
    counts = {make_topic(client, partitions=count): count for count in (3, 2, 4)}
    topics = sorted(counts)
    expected = [(topic, index) for topic in topics for index in range(counts[topic])]
    seen: list[tuple[str, int]] = []
    cursor = None
    for _ in range(len(expected)):
        answer = client.ask(
            sparse_request(
                "describe_topic_partitions",
                0,
                topics=[{"name": topic} for topic in topics],
                response_partition_limit=2,
                cursor=cursor,
            )
        )
        page = [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
        assert 1 <= len(page) <= 2
        seen += page
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert seen == expected


def test_active_producers_are_described(client: RawClient) -> None:
    topic = make_topic(client)
    sequenced = replace(batch_of([b"a", b"b", b"c"]), producer_id=987_654, producer_epoch=3, base_sequence=0)
    assert _produce_code(client, topic, sequenced.encode(), 0) is ErrorCode.none
    wanted = [{"name": topic, "partition_indexes": [0, 9]}]
    found, missing = client.ask(sparse_request("describe_producers", 0, topics=wanted)).topics[0].partitions
    (producer,) = found.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (987_654, 3, 2)
    assert producer.last_timestamp == TIMESTAMP_MS
    assert producer.current_txn_start_offset == -1
    assert missing.error_code is ErrorCode.unknown_topic_or_partition


def test_log_directories_show_how_much_each_partition_takes(client: RawClient) -> None:
    topic, records = make_topic(client), batch_of([bytes(5000)]).encode()
    request = sparse_request("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0]}])

    def sizes() -> list[int]:
        (directory,) = client.ask(request).results
        assert 0 < directory.usable_bytes <= directory.total_bytes
        return [partition.partition_size for found in directory.topics for partition in found.partitions]

    assert sizes() == [0]
    for count in (1, 2):
        assert _produce_code(client, topic, records, 0) is ErrorCode.none
        assert sizes() == [count * len(records)]
    client.ask(delete_topic_request(topic))
    assert sizes() == []


def test_producer_ids_never_repeat_over_brokers_and_restarts(cluster: OttlaCluster) -> None:
    taken: list[int] = []
    for _ in range(2):
        for service in [service for service in cluster.services if service.role == "broker"]:
            with RawClient("127.0.0.1", service.port) as client:
                for _ in range(IDS_PER_BROKER):
                    taken += eventually(lambda: _producer_ids(client), "an id is given out")
        cluster.stop()
        cluster.start()
    assert len(set(taken)) == len(taken) == 2 * len(BROKER_IDS) * IDS_PER_BROKER


def _producer_ids(client: RawClient) -> list[int]:
    """One new id, or none yet."""
    answer = client.ask(init_producer_id_request())
    if answer.error_code is ErrorCode.coordinator_load_in_progress:
        return []
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
    return [answer.producer_id]
