"""A `mm2.properties` is understood as MirrorMaker 2 does, and all that is wrong with one is told at once."""

from pathlib import Path

import pytest

from ottla_core.errors import ConfigurationError
from ottla_mirror.config.mirror_config import MirrorConfig, shown
from ottla_standard.mirror.replication_policies import IdentityReplicationPolicy

CLUSTERS = {"clusters": "A, B", "A.bootstrap.servers": "a:9092, a:9093", "B.bootstrap.servers": "b:9092"}
ONE_WAY = {**CLUSTERS, "A->B.enabled": "true"}
SAMPLE = """\
# The example that comes with Kafka.
clusters = A, B
A.bootstrap.servers = A_host1:9092, A_host2:9092, A_host3:9092
B.bootstrap.servers = B_host1:9092, B_host2:9092, B_host3:9092
A->B.enabled = true
A->B.topics = .*
B->A.enabled = true
B->A.topics = .*
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
topics.exclude = .*[\\\\-\\\\.]internal, \\
    __.*
"""


def refused(settings: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        MirrorConfig.parse(settings)
    return [line.strip() for line in str(raised.value).splitlines()[1:]]


def test_the_example_of_kafka_is_taken_as_it_is(tmp_path: Path):
    path = tmp_path / "mm2.properties"
    path.write_text(SAMPLE)
    config = MirrorConfig.load(["--config", str(path), "--set", "log.level=debug"], {})
    assert list(config.flows) == ["A->B", "B->A"]
    assert config.targets == ("A", "B")
    flow = config.flows["A->B"]
    assert flow.settings.replication_factor == 1
    assert [str(each) for each in flow.source_clients.consumer.bootstrap][:2] == ["A_host1:9092", "A_host2:9092"]
    # A backslash in Java's properties files has to be written twice, and a line goes on behind one at its end.
    assert not flow.plugins.topics.should_replicate_topic("x-internal")
    assert not flow.plugins.topics.should_replicate_topic("__consumer_offsets")
    assert config.worker.log_level == "debug"
    assert [note.partition(":")[0] for note in config.notes] == [
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
        "config.storage.replication.factor",
    ]


def test_without_flows_a_worker_waits_for_them_at_all_clusters():
    config = MirrorConfig.parse({**CLUSTERS, "A->B.topics": "orders"})
    assert not config.flows
    assert config.targets == ("A", "B")


def test_a_flow_counts_before_what_is_written_for_all():
    config = MirrorConfig.parse({**ONE_WAY, "topics": "a", "A->B.topics": "b", "sync.group.offsets.enabled": "true"})
    flow = config.flows["A->B"]
    assert flow.plugins.topics.should_replicate_topic("b")
    assert not flow.plugins.topics.should_replicate_topic("a")
    assert flow.settings.sync_group_offsets_enabled


def test_clients_have_settings_of_the_most_special_place():
    config = MirrorConfig.parse(
        {
            **ONE_WAY,
            "fetch.max.bytes": "1",
            "A.fetch.max.bytes": "2",
            "A.consumer.fetch.max.bytes": "3",
            "A->B.source.consumer.fetch.max.wait.ms": "4",
            "A->B.consumer.max.partition.fetch.bytes": "5",
            "A->B.consumer.auto.offset.reset": "latest",
            "B.producer.client.id": "writer",
        }
    )
    flow = config.flows["A->B"]
    assert flow.source_clients.consumer.numbers["fetch.max.bytes"] == 3
    assert flow.source_clients.admin.numbers["fetch.max.bytes"] == 2
    assert flow.target_clients.admin.numbers["fetch.max.bytes"] == 1
    assert flow.source_clients.consumer.numbers["fetch.max.wait.ms"] == 4
    assert flow.source_clients.consumer.numbers["max.partition.fetch.bytes"] == 5
    assert flow.source_clients.consumer.start == "latest"
    assert flow.target_clients.producer.client_id == "writer"
    assert flow.target_clients.admin.client_id == ""


def test_java_names_of_classes_are_taken():
    config = MirrorConfig.parse(
        {**ONE_WAY, "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    )
    policy = config.flows["A->B"].plugins.policy
    assert isinstance(policy, IdentityReplicationPolicy)
    assert policy.topic_source("orders") == "A"


def test_secrets_come_from_files_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password = from a file\n")
    monkeypatch.setenv("MIRROR_USER", "from the environment")
    config = MirrorConfig.parse(
        {
            **ONE_WAY,
            "A.security.protocol": "SASL_PLAINTEXT",
            "A.sasl.mechanism": "PLAIN",
            "A.sasl.username": "${env:MIRROR_USER}",
            "A.sasl.password": f"${{file:{secrets}:password}}",
        }
    )
    login = config.flows["A->B"].source_clients.admin.client_security().login
    assert login is not None
    assert (login.username, login.password) == ("from the environment", "from a file")
    assert "from a file" not in repr(config.flows["A->B"])


def test_all_that_is_wrong_is_told_at_once():
    assert refused(
        {
            "clusters": "A,B",
            "A.bootstrap.servers": "x",
            "B.bootstrap.servers": "b:1",
            "A->B.enabled": "true",
            "A->A.enabled": "true",
            "A->C.enabled": "true",
            "A->B.replication.factor": "two",
            "A->B.tpics": "orders",
            "B.replication.factor": "3",
            "B.group.id": "mine",
            "B.security.protocol": "SASL_SSL",
            "B.producer.compression.type": "zstd",
            "B.consumer.ftch.max.bytes": "1",
            "B.consumer.isolation.level": "read_uncommitted",
            "transforms": "mask",
            "forwarding.admin.class": "com.example.Admin",
            "memory.max.bytes": "1",
        }
    ) == [
        "memory.max.bytes: must be 8388608 or more (got '1')",
        "A->A.enabled: a cluster is not mirrored to itself",
        "A->C.enabled: write SOURCE->TARGET.setting with two of the aliases in clusters",
        "B.replication.factor: holds for flows; write SOURCE->TARGET.replication.factor, "
        "or replication.factor for all of them",
        "B.group.id: holds for the whole worker; write group.id",
        "B.producer.compression.type: batches keep their compression; set compression.type of the target's topics",
        "B.consumer.ftch.max.bytes: unknown setting; did you mean fetch.max.bytes?",
        "B.consumer.isolation.level: what a transaction has aborted is never copied; remove it",
        "transforms: batches are copied as they are, no record is looked at; remove it",
        "forwarding.admin.class: it names a Java class, which cannot be loaded here; remove it",
        "A.bootstrap.servers: write an address as HOST:PORT, not 'x'",
        "B.sasl.mechanism: must be set for SASL_SSL: PLAIN or SCRAM-SHA-256 or SCRAM-SHA-512 or OAUTHBEARER",
        "A->B.replication.factor: write a whole number (got 'two')",
        "A->B.tpics: unknown setting; did you mean topics?",
    ]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "clusters: must be set"),
        ({"clusters": "A"}, "A.bootstrap.servers: must be set, as HOST:PORT of some brokers"),
        ({**ONE_WAY, "A->B.topics": "["}, "A->B.topics: '[': not a regular expression"),
        ({**ONE_WAY, "topic.filter.class": "NoSuch"}, "topic.filter.class: no installed plugin has a topicfilter"),
        ({**ONE_WAY, "A.sasl.password": "${file:/none:x}"}, "A.sasl.password: ${file:/none:x} cannot be resolved"),
        ({**ONE_WAY, "A.sasl.password": "${vault:x:y}"}, "refers to a config provider vault"),
        ({**ONE_WAY, "refused.batches.topic": "x"}, "only has a meaning with refused.batches=dead.letter.topic"),
        ({**ONE_WAY, "errors.tolerance": "all"}, "errors.tolerance: nothing is skipped silently"),
        ({**ONE_WAY, "rplication.policy.separator": "_"}, "did you mean replication.policy.separator?"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(settings: dict[str, str], told: str):
    assert any(told in line for line in refused(settings)), refused(settings)


def test_a_flow_may_be_created_with_a_source_of_its_own():
    reader = MirrorConfig.parse(CLUSTERS).reader
    flow = reader.created("C", "B", {"topics": "orders"}, {"bootstrap.servers": "c:1", "client.id": "me"})
    assert (flow.name, flow.origin, flow.settings.enabled) == ("C->B", "created", True)
    assert flow.source_clients.admin.client_id == "me"
    assert str(flow.target_clients.admin.bootstrap[0]) == "b:9092"


@pytest.mark.parametrize(
    ("source", "target", "settings", "source_settings", "told"),
    [
        ("A", "D", {}, {}, "target: the workers know no cluster 'D'; they know A, B"),
        ("B", "B", {}, {}, "source: a cluster is not mirrored to itself"),
        ("C", "B", {}, {}, "source: the workers know no cluster 'C'"),
        ("A", "B", {}, {"bootstrap.servers": "a:1"}, "source: the workers have settings of 'A' already"),
        ("A", "B", {"tpics": "x"}, {}, "A->B.tpics: unknown setting; did you mean topics?"),
        ("C", "B", {}, {"client.id": "x"}, "bootstrap.servers: must be set"),
        ("C", "B", {}, {"bootstrap.servers": "c:1", "bootstrap.srvers": "x"}, "did you mean bootstrap.servers?"),
    ],
)
def test_a_flow_that_cannot_be_created_is_refused_with_the_reason(source, target, settings, source_settings, told):
    reader = MirrorConfig.parse(CLUSTERS).reader
    with pytest.raises(ConfigurationError) as raised:
        reader.created(source, target, settings, source_settings)
    assert told in str(raised.value)


def test_secrets_are_shown_as_references_or_not_at_all():
    settings = {
        "sasl.password": "x",
        "sasl.jaas.config": "${file:f:x}",
        "ssl.key.pem": "x",
        "ssl.keystore.key": "x",
        "topics": "orders",
    }
    assert shown(settings) == {
        "sasl.password": "[hidden]",
        "sasl.jaas.config": "${file:f:x}",
        "ssl.key.pem": "[hidden]",
        "ssl.keystore.key": "[hidden]",
        "topics": "orders",
    }


def test_exactly_once_may_be_written_for_a_target_as_in_mirror_maker_or_for_a_flow() -> None:
    both = {**ONE_WAY, "B->A.enabled": "true"}
    config = MirrorConfig.parse(
        {**both, "B.exactly.once.source.support": "enabled", "B.offset.flush.interval.ms": "500"}
    )
    to_b, to_a = config.flows["A->B"].settings, config.flows["B->A"].settings
    assert (to_b.is_transactional, to_b.offset_flush_interval_ms) == (True, 500)
    assert (to_a.is_transactional, to_a.offset_flush_interval_ms) == (False, 1000)
    flow = {"A->B.exactly.once.source.support": "disabled", "exactly.once.source.support": "enabled"}
    config = MirrorConfig.parse({**both, **flow})
    assert not config.flows["A->B"].settings.is_transactional
    assert config.flows["B->A"].settings.is_transactional
    assert (
        not MirrorConfig.parse({**ONE_WAY, "exactly.once.source.support": "preparing"})
        .flows["A->B"]
        .settings.is_transactional
    )


def test_transactions_have_to_end_before_the_target_would_abort_them() -> None:
    settings = {**ONE_WAY, "exactly.once.source.support": "enabled", "B.producer.transaction.timeout.ms": "30000"}
    assert (
        MirrorConfig.parse(settings).flows["A->B"].target_clients.producer.numbers["transaction.timeout.ms"] == 30000
    )
    wrong = refused({**settings, "offset.flush.interval.ms": "10001"})
    assert len(wrong) == 1
    assert wrong[0].startswith("A->B.offset.flush.interval.ms: is 10001")
    assert wrong[0].endswith("write at most 10000")
