"""A worker's settings: where they come from, what is refused, and what librdkafka is told."""

from pathlib import Path

import pytest

from ottla_connect.config import WorkerConfig
from ottla_core.client.group.membership_lease import MembershipLease
from ottla_core.client.security import ClientSecurity
from ottla_core.client.token_endpoint import EndpointTokens
from ottla_core.errors import ConfigurationError
from ottla_sdk.kafka.client_settings import ClientSettingError

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="a \\"b\\"";'


def problems(raw: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        WorkerConfig.parse(raw)
    return str(caught.value)


def test_kafkas_own_example_of_a_distributed_worker_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "connect-distributed.properties"
    path.write_text(
        "bootstrap.servers=localhost:9092\ngroup.id=connect-cluster\n"
        "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "value.converter=org.apache.kafka.connect.json.JsonConverter\n"
        "key.converter.schemas.enable=true\nvalue.converter.schemas.enable=true\n"
        "offset.storage.topic=connect-offsets\noffset.storage.replication.factor=1\n#offset.storage.partitions=25\n"
        "config.storage.topic=connect-configs\nconfig.storage.replication.factor=1\n"
        "status.storage.topic=connect-status\nstatus.storage.replication.factor=1\n#status.storage.partitions=5\n"
        "offset.flush.interval.ms=10000\n#listeners=HTTP://:8083\n#plugin.path=/usr/local/share/java\n"
    )
    config = WorkerConfig.load(["--config", str(path)], {})
    assert config.storage_topic("config").replication_factor == 1
    assert config.storage_topic("offset").partitions == 25
    assert config.with_prefix("key.converter.") == {"schemas.enable": "true"}
    assert config.offset_flush_interval_ms == 10000


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("group.id=file\nproducer.acks=1\nproducer.linger.ms=1\nlisteners=http://:1\n")
    config = WorkerConfig.load(
        ["--config", str(path), "--set", "group.id=command line"],
        {"OTTLA_GROUP_ID": "environment", "OTTLA_PRODUCER_LINGER_MS": "2", "OTTLA_SASL_MECHANISM": "PLAIN"},
    )
    assert config.group_id == "command line"
    assert config.with_prefix("producer.") == {"acks": "1", "linger.ms": "2"}
    assert config.raw["sasl.mechanism"] == "PLAIN"


def test_what_was_written_makes_the_same_settings_elsewhere() -> None:
    raw = {
        "bootstrap.servers": "a:1,b:2",
        "listeners": "http://127.0.0.1:0,https://[::1]:8443",
        "listeners.https.ssl.keystore.location": "/k.pem",
        "errors.log.enable": "true",
        "metrics.listener": "127.0.0.1:9",
        "key.converter.schemas.enable": "false",
        "sasl.jaas.config": PLAIN,
        "topic.tracking.enable": "false",
    }
    config = WorkerConfig.parse(raw)
    assert config.raw == raw
    assert WorkerConfig.parse(config.raw) == config


def test_everything_that_is_wrong_is_told_at_once() -> None:
    told = problems(
        {
            "group.idd": "x",
            "plugin.path": "/java",
            "session.timeout.ms": "soon",
            "listeners": "localhost:8083",
            "sasl.mechanism": "GSSAPI",
            "producer.ssl.truststore.location": "/trust.jks",
            "consumer.interceptor.classes": "x.Y",
            "config.storage.partitions": "3",
            "offset.storage.cleanup.policy": "delete",
        }
    )
    for key in (
        "group.idd: unknown setting",
        "plugin.path: plugins are Python packages",
        "session.timeout.ms:",
        "listeners:",
        "sasl.mechanism: 'GSSAPI'",
        "producer.ssl.truststore.location: /trust.jks is a JKS store",
        "consumer.interceptor.classes:",
        "config.storage.partitions:",
        "offset.storage.cleanup.policy:",
    ):
        assert key in told


def test_settings_that_contradict_each_other_are_refused() -> None:
    told = problems(
        {
            "heartbeat.interval.ms": "10000",
            "inter.worker.signature.algorithm": "HmacSHA512",
            "standalone": "true",
            "status.storage.partitions": "0",
        }
    )
    assert "heartbeat.interval.ms: must be less than session.timeout.ms" in told
    assert "inter.worker.verification.algorithms: must contain" in told
    assert "offset.storage.file.filename: must be set for a standalone worker" in told
    assert "status.storage.partitions: must be positive" in told


def test_a_secret_that_is_malformed_is_not_shown() -> None:
    told = problems({"sasl.jaas.config": 'PlainLoginModule required username="u" password="hunter2"'})
    assert "sasl.jaas.config" in told
    assert "hunter2" not in told


def test_a_reference_to_a_config_provider_is_refused_where_nothing_resolves_it() -> None:
    assert "OTTLA_SASL_JAAS_CONFIG" in problems({"sasl.jaas.config": "${file:/secrets:jaas}"})
    assert WorkerConfig.parse({"producer.sasl.jaas.config": "${file:/secrets:jaas}"})


def test_a_standalone_worker_takes_its_connectors_from_the_arguments() -> None:
    config = WorkerConfig.load(
        ["--standalone", "--set", "offset.storage.file.filename=/o", "a.properties", "b.json"], {}
    )
    assert config.standalone
    assert config.standalone_connector_files == ("a.properties", "b.json")
    with pytest.raises(ConfigurationError, match="only a standalone worker takes connectors from files"):
        WorkerConfig.load(["a.properties"], {})


def test_every_client_is_told_the_workers_security_and_a_connectors_own_word_counts_last() -> None:
    config = WorkerConfig.parse(
        {
            "bootstrap.servers": "k:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": PLAIN,
            "ssl.truststore.location": "/ca.pem",
            "client.id": "the worker's",
            "producer.max.request.size": "1000",
        }
    )
    told = config.client_config("producer", {"sasl.username": "bob", "max.request.size": "2000"})
    assert told["security.protocol"] == "SASL_SSL"
    assert (told["sasl.username"], told["sasl.password"]) == ("bob", 'a "b"')
    assert told["ssl.ca.location"] == "/ca.pem"
    assert told["message.max.bytes"] == "2000"
    assert (told["acks"], told["enable.idempotence"], told["partitioner"]) == ("all", "true", "murmur2_random")
    assert "client.id" not in told
    assert config.client_config("worker")["client.id"] == "the worker's"
    assert config.client_config("consumer")["auto.offset.reset"] == "earliest"


def test_a_worker_and_its_connectors_log_in_by_token() -> None:
    oauth = "org.apache.kafka.common.security.oauthbearer"
    config = WorkerConfig.parse(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{oauth}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.jaas.config": f'{oauth}.OAuthBearerLoginModule required clientId="worker" clientSecret="s";',
        }
    )
    tokens = ClientSecurity.of(config.client_config("worker")).tokens
    assert isinstance(tokens, EndpointTokens)
    assert (tokens.endpoint.url, tokens.endpoint.client_id) == ("https://idp/token", "worker")
    own = {"sasl.oauthbearer.client.id": "connector", "sasl.oauthbearer.client.secret": "t"}
    told = config.client_config("producer", own)
    assert (told["sasl.oauthbearer.method"], told["sasl.oauthbearer.client.id"]) == ("oidc", "connector")


def test_java_names_are_translated_and_what_has_no_counterpart_left_out() -> None:
    config = WorkerConfig.parse({})
    told = config.client_config(
        "consumer",
        {
            "fetch.max.wait.ms": "7",
            "request.timeout.ms": "9",
            "key.deserializer": "x.Y",
            "max.poll.records": "50",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "auto.offset.reset": "none",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.keystore.location": "/k.pem",
            "ssl.keystore.type": "PEM",
        },
    )
    assert told["fetch.wait.max.ms"] == "7"
    assert told["socket.timeout.ms"] == "9"
    assert told["partition.assignment.strategy"] == "cooperative-sticky"
    assert told["auto.offset.reset"] == "error"
    assert told["ssl.endpoint.identification.algorithm"] == "none"
    assert told["ssl.certificate.location"] == told["ssl.key.location"] == "/k.pem"
    assert not told.keys() & {"key.deserializer", "max.poll.records", "ssl.keystore.type", "ssl.keystore.location"}


def test_a_sink_tasks_batch_is_max_poll_records() -> None:
    config = WorkerConfig.parse({"consumer.max.poll.records": "50"})
    assert config.poll_records_max() == 50
    assert config.poll_records_max({"max.poll.records": "7"}) == 7
    assert WorkerConfig.parse({}).poll_records_max() == 500
    with pytest.raises(ClientSettingError, match="positive"):
        config.poll_records_max({"max.poll.records": "0"})


@pytest.mark.parametrize(
    "overrides", [{"acks": "1"}, {"retries": "0"}, {"max.in.flight.requests.per.connection": "6"}]
)
def test_a_producer_that_contradicts_idempotence_goes_without(overrides: dict[str, str]) -> None:
    config = WorkerConfig.parse({})
    assert config.client_config("producer", overrides)["enable.idempotence"] == "false"
    asked = config.client_config("producer", {**overrides, "enable.idempotence": "true"})
    assert asked["enable.idempotence"] == "true"


@pytest.mark.parametrize("key", ["plugin.library.paths", "sasl.kerberos.kinit.cmd", "ssl.engine.location"])
def test_a_connector_cannot_have_native_code_or_commands_run(key: str) -> None:
    with pytest.raises(ClientSettingError, match=key):
        WorkerConfig.parse({}).client_config("producer", {key: "x"})


def test_the_override_policy_decides_what_connectors_may_set() -> None:
    principal = {"sasl.username": "bob", "security.protocol": "SSL"}
    anything = {**principal, "linger.ms": "5"}
    everything = WorkerConfig.parse({})
    assert everything.override_problems("producer", anything) == []
    some = WorkerConfig.parse(
        {
            "connector.client.config.override.policy": (
                "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"
            )
        }
    )
    assert some.override_problems("producer", principal) == []
    assert [each.partition(":")[0] for each in some.override_problems("producer", anything)] == [
        "producer.override.linger.ms"
    ]
    none = WorkerConfig.parse({"connector.client.config.override.policy": "None"})
    assert len(none.override_problems("consumer", anything)) == 3


@pytest.mark.parametrize("package", ["", "org.apache.kafka.connect.connector.policy."])
def test_the_policy_allowlist_allows_what_its_list_has_and_at_first_nothing(package: str) -> None:
    suffix = "ConnectorClientConfigOverridePolicy" if package else ""
    policy = {"connector.client.config.override.policy": f"{package}Allowlist{suffix}"}
    wanted = {"linger.ms": "5", "acks": "1"}
    assert len(WorkerConfig.parse(policy).override_problems("producer", wanted)) == 2
    listed = WorkerConfig.parse({**policy, "connector.client.config.override.allowlist": "linger.ms,batch.size"})
    assert [each.partition(":")[0] for each in listed.override_problems("producer", wanted)] == [
        "producer.override.acks"
    ]


def test_the_rest_api_is_reached_from_this_machine_alone_unless_somebody_opens_it() -> None:
    config = WorkerConfig.parse({})
    assert [str(listener) for listener in config.listeners] == ["http://127.0.0.1:8083"]
    assert config.advertised_url(8083, "host-1") == "http://127.0.0.1:8083"


def test_other_workers_find_this_one_where_it_advertises_itself() -> None:
    everywhere = WorkerConfig.parse({"listeners": "http://:8083"})
    assert everywhere.advertised_url(8083, "host-1") == "http://host-1:8083"
    bound = WorkerConfig.parse({"listeners": "http://127.0.0.1:0"})
    assert bound.advertised_url(4711, "host-1") == "http://127.0.0.1:4711"
    behind = WorkerConfig.parse(
        {
            "listeners": "http://127.0.0.1:8083,https://0.0.0.0:8443",
            "listeners.https.ssl.keystore.location": "/k.pem",
            "rest.advertised.host.name": "gate",
            "rest.advertised.port": "443",
            "rest.advertised.listener": "https",
        }
    )
    assert behind.advertised_url(8443, "host-1") == "https://gate:443"


def test_topics_are_created_with_the_settings_below_their_prefix() -> None:
    config = WorkerConfig.parse({"offset.storage.min.insync.replicas": "2", "offset.storage.partitions": "-1"})
    topic = config.storage_topic("offset")
    assert topic.configs == {"min.insync.replicas": "2"}
    assert topic.partitions == -1


@pytest.mark.parametrize(
    ("session_ms", "heartbeat_ms", "rebalance_ms"),
    [(10_000, 1_000, 60_000), (6_000, 3_000, 60_000), (10_000, 9_000, 60_000), (10_000, 1_000, 5_000)],
)
def test_a_worker_may_write_also_shortly_before_a_heartbeat(
    session_ms: int, heartbeat_ms: int, rebalance_ms: int
) -> None:
    times = {"session.timeout.ms": session_ms, "heartbeat.interval.ms": heartbeat_ms}
    times["rebalance.timeout.ms"] = rebalance_ms
    config = WorkerConfig.parse({key: str(value) for key, value in times.items()})
    lease = MembershipLease(session_ms, rebalance_ms)
    lease.in_order(0)
    assert lease.until_ms is not None
    assert 0 < config.write_timeout_s < (lease.until_ms - heartbeat_ms) / 1000
    assert config.write_timeout_s <= lease.until_ms / 2000


def test_a_worker_may_prepare_for_transactions_or_have_them_unless_it_is_standalone() -> None:
    configs = {
        value: WorkerConfig.parse({"exactly.once.source.support": value}) for value in ("Preparing", "ENABLED")
    }
    assert [each.leads_in_transactions for each in configs.values()] == [True, True]
    assert [each.has_transactional_sources for each in configs.values()] == [False, True]
    assert not WorkerConfig.parse({}).leads_in_transactions
    alone = {"standalone": "true", "offset.storage.file.filename": "/o", "exactly.once.source.support": "enabled"}
    with pytest.raises(ConfigurationError, match=r"exactly.once.source.support: a standalone worker"):
        WorkerConfig.parse(alone)
