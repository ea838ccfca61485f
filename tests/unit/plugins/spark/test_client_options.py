"""Options `kafka.*` of a query become librdkafka's settings; what cannot is refused by name."""

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla_sdk import InvalidConfig
from ottla_spark.datasource.client_options import DEFAULTS, ClientKind, Settings, librdkafka_settings

BOOTSTRAP = {"kafka.bootstrap.servers": "127.0.0.1:1"}
PLAIN_LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s\\"e;c=ret";'
)


def settings_of(options: dict[str, str], kind: ClientKind = "producer") -> Settings:
    return librdkafka_settings({**BOOTSTRAP, **options}, kind=kind)


def problems_of(options: dict[str, str], kind: ClientKind = "producer") -> dict[str, str]:
    with pytest.raises(InvalidConfig) as raised:
        settings_of(options, kind)
    return {problem.key: problem.message for problem in raised.value.problems}


def test_only_options_with_the_prefix_count_in_whatever_case() -> None:
    settings = settings_of({"Kafka.Client.ID": "me", "topic": "t", "subscribe": "t"}, "admin")
    assert settings == {"bootstrap.servers": "127.0.0.1:1", "client.id": "me"}


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"kafka.max.request.size": "5000000"}, {"message.max.bytes": "5000000"}),
        ({"kafka.delivery.timeout.ms": "9000"}, {"message.timeout.ms": "9000"}),
        ({"kafka.buffer.memory": "1048576"}, {"queue.buffering.max.kbytes": "1024"}),
        ({"kafka.compression.type": "zstd", "kafka.compression.zstd.level": "5"}, {"compression.level": "5"}),
        (
            {"kafka.security.protocol": "sasl_ssl", "kafka.sasl.mechanism": "PLAIN"},
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        ),
        (
            {"kafka.ssl.truststore.location": "/trusted", "kafka.ssl.truststore.type": "PEM"},
            {"ssl.ca.location": "/trusted"},
        ),
        (
            {"kafka.sasl.jaas.config": PLAIN_LOGIN, "kafka.sasl.mechanism": "PLAIN"},
            {"sasl.username": "ann", "sasl.password": 's"e;c=ret', "sasl.mechanism": "PLAIN"},
        ),
        ({"kafka.queue.buffering.max.messages": "7"}, {"queue.buffering.max.messages": "7"}),
    ],
)
def test_javas_names_become_librdkafkas(java: dict[str, str], librdkafka: Settings) -> None:
    settings = settings_of(java)
    assert {key: settings.get(key) for key in librdkafka} == librdkafka
    assert (
        not (java.keys() & {f"kafka.{key}" for key in settings})
        - {f"kafka.{key}" for key in librdkafka}
        - {"kafka.compression.type"}
    )


@pytest.mark.parametrize(
    "key",
    [
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "auto.offset.reset",
        "enable.auto.commit",
        "interceptor.classes",
        "partitioner.class",
        "transactional.id",
        "sasl.login.class",
        "ssl.engine.factory.class",
        "ssl.protocol",
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "test.mock.num.brokers",
    ],
)
@pytest.mark.parametrize("kind", ["consumer", "producer", "admin"])
def test_what_would_change_the_meaning_is_refused_by_name(key: str, kind: ClientKind) -> None:
    assert list(problems_of({f"kafka.{key}": "anything"}, kind)) == [f"kafka.{key}"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.acks": "1"}, "lose records"),
        ({"kafka.enable.idempotence": "false"}, "double and reorder"),
        ({"kafka.retries": "0"}, "delivery.timeout.ms"),
        ({"kafka.max.in.flight.requests.per.connection": "6"}, "1 to 5"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        ({"kafka.compression.type": "brotli"}, "zstd"),
        ({"kafka.isolation.level": "committed"}, "read_committed"),
        ({"kafka.buffer.memory": "much"}, "no whole number"),
        ({"kafka.ssl.truststore.location": "/trust.jks"}, "write kafka.ssl.truststore.type=PEM"),
        ({"kafka.sasl.jaas.config": PLAIN_LOGIN}, "kafka.sasl.mechanism"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_with_what_to_write(options: dict[str, str], said: str) -> None:
    problems = problems_of(options)
    assert said in problems[next(iter(options))]


def test_everything_wrong_is_said_at_once_the_missing_address_too() -> None:
    with pytest.raises(InvalidConfig) as raised:
        librdkafka_settings({"kafka.acks": "0", "kafka.key.serializer": "x"}, kind="producer")
    assert [problem.key for problem in raised.value.problems] == [
        "kafka.acks",
        "kafka.key.serializer",
        "kafka.bootstrap.servers",
    ]


def test_one_set_of_options_serves_every_kind_of_client() -> None:
    both = {"kafka.group.id": "g", "kafka.linger.ms": "3", "kafka.client.rack": "r", "kafka.max.poll.records": "1"}
    assert {"group.id", "linger.ms", "client.rack"} & settings_of(both, "consumer").keys() == {
        "group.id",
        "client.rack",
    }
    assert {"group.id", "linger.ms", "client.rack"} & settings_of(both, "producer").keys() == {
        "linger.ms",
        "client.rack",
    }
    assert settings_of(both, "admin").keys() == {"bootstrap.servers", "client.rack"}


def test_what_the_user_sets_wins_over_the_defaults() -> None:
    assert settings_of({"kafka.linger.ms": "0"})["linger.ms"] == "0"
    assert settings_of({"kafka.isolation.level": "read_committed"}, "consumer")["isolation.level"] == "read_committed"


def test_librdkafka_accepts_all_defaults() -> None:
    Producer(dict(settings_of({})))
    AdminClient(dict(settings_of({}, "admin")))
    Consumer(dict(settings_of({"kafka.group.id": "g"}, "consumer"))).close()
    assert all(DEFAULTS[kind].keys() <= settings_of({}, kind).keys() for kind in DEFAULTS)
