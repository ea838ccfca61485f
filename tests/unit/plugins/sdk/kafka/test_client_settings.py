"""Settings of Java's clients become librdkafka's; what cannot is refused by name, for all users of the kit alike."""

from itertools import combinations
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from ottla_connect import client_settings as connect
from ottla_sdk.kafka.client_settings import (
    LEFT_OUT,
    REFUSED,
    RENAMED,
    RUNS_CODE,
    RUNS_CODE_BELOW,
    TRANSLATED,
    ClientRules,
    ClientSettingError,
    Fate,
    fate,
    librdkafka_settings,
)
from ottla_spark.datasource import client_options as spark

RULES = ClientRules()
USERS = {
    "Connect": connect.RULES,
    "queries": spark.RULES,
}
JAVA = [
    line
    for line in (Path(__file__).parent / "java_client_settings.txt").read_text().splitlines()
    if not line.startswith("#")
]
KEYS = sorted(
    {*JAVA, *LEFT_OUT, *REFUSED, *RENAMED, *RENAMED.values(), *RUNS_CODE, *TRANSLATED}
    | {f"{prefix}anything" for prefix in RUNS_CODE_BELOW}
    | {key for rules in USERS.values() for key in (*rules.refused, *rules.left_out, *rules.translated)}
)
PLAIN_LOGIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s\\"e;c=ret";'
)
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required\n  username=ann\n  password=p;"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
OAUTH_LOGIN = f'{OAUTH}.OAuthBearerLoginModule required clientId="me" clientSecret="s" scope="kafka read";'


def settings_of(settings: dict[str, str], rules: ClientRules = RULES) -> dict[str, str]:
    """What a layer of settings becomes."""
    return librdkafka_settings(settings, rules, is_whole=False)


def problems_of(settings: dict[str, str], rules: ClientRules = RULES, *, is_whole: bool = True) -> dict[str, str]:
    with pytest.raises(ClientSettingError) as raised:
        librdkafka_settings(settings, rules, prefix="producer.", is_whole=is_whole)
    return {problem.key: problem.message for problem in raised.value.problems}


def is_known(key: str) -> bool:
    """Whether librdkafka has a setting of this name."""
    try:
        Producer({key: "x", "log_level": 0, "bootstrap.servers": "127.0.0.1:1"})
    except KafkaException as error:
        return "No such configuration property" not in error.args[0].str()
    except (TypeError, ValueError):
        return True  # a callback
    return True


@pytest.mark.parametrize("key", JAVA)
def test_there_is_a_rule_for_every_setting_of_javas_clients_that_librdkafka_lacks(key: str) -> None:
    found, reason = fate(key, RULES)
    if found is Fate.PASSES:
        assert is_known(RENAMED.get(key, key))
    assert bool(reason) == (found is Fate.REFUSED)


def test_every_key_is_in_one_table_only() -> None:
    for one, other in combinations((LEFT_OUT, REFUSED, RENAMED, RUNS_CODE, TRANSLATED), 2):
        assert not set(one) & set(other)
    for rules in USERS.values():
        for one, other in combinations((rules.refused, rules.left_out, rules.translated), 2):
            assert not set(one) & set(other)


@pytest.mark.parametrize("key", KEYS)
def test_what_is_refused_for_all_is_refused_by_every_user(key: str) -> None:
    found, _ = fate(key, RULES)
    if found is Fate.REFUSED:
        assert {fate(key, rules)[0] for rules in USERS.values()} == {Fate.REFUSED}


DECIDED_BY_THE_QUERY = {
    "auto.offset.reset",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "key.deserializer",
    "key.serializer",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
}
NO_MEMBER_OF_A_GROUP = {
    "group.instance.id",
    "heartbeat.interval.ms",
    "internal.leave.group.on.close",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
}


def test_users_differ_in_these_settings_only_and_say_why() -> None:
    differing = {key for key in KEYS if fate(key, connect.RULES)[0] is not fate(key, spark.RULES)[0]}
    refused = {key for key in differing if fate(key, spark.RULES)[0] is Fate.REFUSED}
    assert refused == DECIDED_BY_THE_QUERY
    left_out = {key for key in differing if fate(key, spark.RULES)[0] is Fate.LEFT_OUT}
    assert left_out == NO_MEMBER_OF_A_GROUP
    assert all(fate(key, spark.RULES)[0] is Fate.TRANSLATED for key in differing - refused - left_out)
    for rules in USERS.values():
        assert all({**rules.refused, **rules.left_out}.values())


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "key",
    [
        "plugin.library.paths",
        "ssl.engine.id",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.principal",
        "test.mock.num.brokers",
    ],
)
def test_native_code_commands_and_brokers_that_are_none_are_refused(user: str, key: str) -> None:
    assert list(problems_of({key: "x"}, USERS[user])) == [key]
    assert settings_of({key: "x"}, ClientRules(may_run_code=True)) == {key: "x"}


def test_kerberos_is_only_for_those_who_may_run_its_command() -> None:
    kerberos = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    assert "SCRAM-SHA-512" in problems_of(kerberos)["sasl.mechanism"]
    assert librdkafka_settings(kerberos, ClientRules(may_run_code=True)) == kerberos
    by_default = {"security.protocol": "SASL_SSL"}
    assert "must be set for SASL_SSL" in problems_of(by_default)["sasl.mechanism"]
    assert librdkafka_settings(by_default, ClientRules(may_run_code=True)) == by_default


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({"max.request.size": "5000000"}, {"message.max.bytes": "5000000"}),
        ({"request.timeout.ms": "7000"}, {"socket.timeout.ms": "7000"}),
        ({"buffer.memory": "1048576"}, {"queue.buffering.max.kbytes": "1024"}),
        ({"compression.zstd.level": "5"}, {"compression.level": "5"}),
        ({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
        ({"partition.assignment.strategy": "range"}, {"partition.assignment.strategy": "range"}),
        ({"partitioner.ignore.keys": "false"}, {}),
        ({"max.poll.records": "3"}, {}),
        ({"security.protocol": "sasl_ssl"}, {"security.protocol": "SASL_SSL"}),
        ({"sasl.mechanisms": "scram-sha-256"}, {"sasl.mechanism": "SCRAM-SHA-256"}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
        ({"ssl.truststore.location": "/ca", "ssl.truststore.type": "pem"}, {"ssl.ca.location": "/ca"}),
        ({"ssl.keystore.location": "/me.p12"}, {"ssl.keystore.location": "/me.p12"}),
        (
            {"ssl.keystore.location": "/me.pem"},
            {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem"},
        ),
        ({"sasl.jaas.config": PLAIN_LOGIN}, {"sasl.username": "ann", "sasl.password": 's"e;c=ret'}),
        ({"sasl.jaas.config": SCRAM_LOGIN}, {"sasl.username": "ann", "sasl.password": "p"}),
        ({"queue.buffering.max.messages": "7"}, {"queue.buffering.max.messages": "7"}),
        ({"enable.metrics.push": "false"}, {"enable.metrics.push": "false"}),
    ],
)
def test_javas_names_become_librdkafkas(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    assert settings_of(java) == librdkafka


def test_of_two_names_for_the_same_thing_the_later_wins() -> None:
    assert settings_of({"request.timeout.ms": "1", "socket.timeout.ms": "2"}) == {"socket.timeout.ms": "2"}
    assert settings_of({"socket.timeout.ms": "2", "request.timeout.ms": "1"}) == {"socket.timeout.ms": "1"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"security.protocol": "TLS"}, "SASL_SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        ({"buffer.memory": "much"}, "no whole number"),
        ({"partitioner.class": "x.Y"}, "producer.partitioner instead"),
        ({"partitioner.ignore.keys": "true"}, "producer.partitioner=random"),
        ({"partition.assignment.strategy": "x.Sticky"}, "no assignor x.Sticky"),
        ({"auto.offset.reset": "by_duration:PT1H"}, "cannot reset to a time"),
        ({"transaction.two.phase.commit.enable": "true"}, "cannot take part"),
        ({"ssl.truststore.location": "/trust.jks"}, "producer.ssl.truststore.type=PEM"),
        ({"ssl.keystore.location": "/me.jks"}, "producer.ssl.keystore.type"),
        ({"ssl.truststore.password": "x"}, "see producer.ssl.truststore.location"),
        ({"sasl.jaas.config": "com.acme.Login required;"}, "com.acme.Login"),
        ({"sasl.jaas.config": PLAIN_LOGIN}, "producer.sasl.mechanism too"),
        ({"sasl.login.callback.handler.class": "com.acme.Handler"}, "OAuthBearerLoginCallbackHandler"),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.FileJwtRetriever"}, "ClientCredentialsJwtRetriever"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.acme.Validator"}, "brokers check tokens"),
        ({"sasl.oauthbearer.header.urlencode": "true"}, "does not encode"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///token"}, "http"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(settings: dict[str, str], said: str) -> None:
    assert said in problems_of(settings)[next(iter(settings))]


@pytest.mark.parametrize(
    "login",
    [
        'org.apache.kafka.common.security.plain.PlainLoginModule required password="hush";',
        f'{OAUTH}.OAuthBearerLoginModule required clientSecret="hush" ssl.truststore.location="/t";',
        f'{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="hush";',
        'PlainLoginModule required username="u" password="hush"',
    ],
)
def test_a_login_that_is_refused_is_not_shown(login: str) -> None:
    problems = problems_of({"sasl.jaas.config": login, "sasl.mechanism": "PLAIN"})
    assert list(problems) == ["sasl.jaas.config"]
    assert "hush" not in str(problems)


def test_everything_wrong_is_told_at_once() -> None:
    assert list(problems_of({"ssl.protocol": "TLS", "linger.ms": "1", "buffer.memory": "x"})) == [
        "ssl.protocol",
        "buffer.memory",
    ]


@pytest.mark.parametrize(
    "java",
    [
        {
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.jaas.config": OAUTH_LOGIN,
        },
        {"sasl.jaas.config": OAUTH_LOGIN},
        {
            "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required ;",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "s",
            "sasl.oauthbearer.scope": "kafka read",
        },
        {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "s",
            "sasl.oauthbearer.scope": "kafka read",
        },
    ],
    ids=["handler and login", "login alone", "Kafka 4.1's settings", "librdkafka's settings"],
)
def test_javas_ways_to_say_who_asks_for_tokens_become_librdkafkas(java: dict[str, str]) -> None:
    common = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    url = {"sasl.oauthbearer.token.endpoint.url": "https://idp/token"}
    assert librdkafka_settings({**common, **url, **java}, RULES) == {
        **common,
        **url,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "kafka read",
    }


def test_a_signed_assertion_is_another_way_to_a_token() -> None:
    found = settings_of(
        {
            "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever",
            "sasl.oauthbearer.jwt.validator.class": f"{OAUTH}.DefaultJwtValidator",
            "sasl.oauthbearer.assertion.private.key.file": "/key.pem",
            "sasl.oauthbearer.assertion.template.file": "/template.json",
        }
    )
    assert found == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.assertion.private.key.file": "/key.pem",
        "sasl.oauthbearer.assertion.jwt.template.file": "/template.json",
    }


def test_who_has_no_tokens_cannot_log_in_with_one() -> None:
    problems = problems_of({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"})
    assert "must be set for OAUTHBEARER" in problems["sasl.oauthbearer.token.endpoint.url"]
