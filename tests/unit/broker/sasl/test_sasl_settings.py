"""Settings of SASL under Kafka's names: what they say for a listener and mechanism, and what is refused how."""

from pathlib import Path

import pytest

from ottla_broker.config import BrokerConfig
from ottla_broker.sasl.jaas import BEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from ottla_broker.sasl.password_file import read_passwords
from ottla_broker.sasl.sasl_settings import peer_login_settings, sasl_settings
from ottla_core.config import validated
from ottla_core.errors import ConfigurationError
from ottla_core.properties_file import read_properties

PLAIN_JAAS = f'{PLAIN_MODULE} required username="broker" password="b" user_broker="b" user_ann="a";'
PREFIX = "listener.name.clients."


def test_a_login_module_is_read_as_java_reads_it() -> None:
    text = """// users
      org.apache.kafka.common.security.plain.PlainLoginModule REQUIRED /* of
      two lines */ user_ann="with \\"quotes\\", = and ;" password=word
      ;"""
    module = parse_jaas(text)
    assert module.name == PLAIN_MODULE
    assert module.options == {"user_ann": 'with "quotes", = and ;', "password": "word"}
    assert "word" not in repr(module)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no login module"),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "Krb5LoginModule is no login module"),
        (f"{PLAIN_MODULE};", "is to be followed by one of required"),
        (f"{PLAIN_MODULE} required", "end with a semicolon"),
        (f'{PLAIN_MODULE} required user_a="hidden"', "end with a semicolon"),
        (f"{PLAIN_MODULE} required user_a=;", "user_a of"),
        (f"{PLAIN_MODULE} required hidden;", "is not written as NAME"),
        (f'{PLAIN_MODULE} required user_a="hidden', "quotation mark"),
        (f"{PLAIN_MODULE} required; {PLAIN_MODULE} required;", "another one follows"),
    ],
)
def test_another_text_is_refused_without_its_values(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        parse_jaas(text)
    assert "hidden" not in str(refused.value)


def test_the_most_specific_setting_comes_first() -> None:
    values = {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        f"{PREFIX}plain.sasl.jaas.config": PLAIN_JAAS,
        f"{PREFIX}connections.max.reauth.ms": "5000",
        f"{PREFIX}scram-sha-512.connections.max.reauth.ms": "7000",
    }
    found = sasl_settings("CLIENTS", values)
    assert found.mechanisms == ("SCRAM-SHA-512", "PLAIN")
    assert found.passwords == {"broker": "b", "ann": "a"}
    assert found.reauthentication_ms == {"SCRAM-SHA-512": 7000, "PLAIN": 5000}
    assert "'a'" not in repr(found)


def test_variables_of_the_environment_spell_mechanisms_with_dots() -> None:
    jaas = f'{SCRAM_MODULE} required username="broker" password="b";'
    values = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{PREFIX}scram.sha.256.sasl.jaas.config": jaas,
    }
    assert peer_login_settings("CLIENTS", values).options == {"username": "broker", "password": "b"}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "set sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "has no users"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            "is to name org.apache.kafka.common.security.plain.PlainLoginModule",
        ),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "needs sasl.oauthbearer.jwks.endpoint.url"),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.jaas.config": f'{BEARER_MODULE} required unsecuredLoginStringClaim_sub="hidden";',
            },
            "without a signature",
        ),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256", "connections.max.reauth.ms": "soon"}, "whole number"),
    ],
)
def test_settings_that_are_not_enough_are_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        sasl_settings("CLIENTS", values)
    assert "hidden" not in str(refused.value)


def test_brokers_need_a_login_among_themselves() -> None:
    values = {"sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN", "sasl.mechanism.inter.broker.protocol": "PLAIN"}
    with pytest.raises(
        ConfigurationError, match=r"username and password belong into listener\.name\.peers\.plain\.sasl"
    ):
        peer_login_settings("PEERS", values)
    with pytest.raises(ConfigurationError, match="set it to one"):
        peer_login_settings("PEERS", {"sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN"})


def configured(tmp_path: Path, text: str) -> BrokerConfig:
    file = tmp_path / "broker.properties"
    file.write_text(f"node.id=1\nlog.dirs={tmp_path}\n{text}")
    return validated(BrokerConfig, read_properties(file), {})


def test_a_file_of_kafka_with_continued_lines_is_taken(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "listeners=CLIENTS://127.0.0.1:0\nlistener.security.protocol.map=CLIENTS:SASL_PLAINTEXT\n"
        "sasl.enabled.mechanisms=PLAIN\n"
        "listener.name.clients.plain.sasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '   username="broker" \\\n   password="b" user_broker="b";\n',
    )
    assert config.sasl_of_listeners()["CLIENTS"].passwords == {"broker": "b"}
    login = config.peer_login()
    assert login is not None
    assert login.mechanism == "PLAIN"


def test_a_line_that_is_no_setting_is_refused_without_its_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"broker\.properties:3: not a key=value line") as refused:
        configured(tmp_path, "hidden\n")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("key", ["sasl.kerberos.service.name", "listener.name.clients.plain.sasl.jaas", "sasl.x"])
def test_unknown_settings_of_sasl_are_refused_by_name(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        configured(tmp_path, f"{key}=hidden\n")


def test_users_in_a_file_are_read_and_wrong_lines_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# people\nann=a=b\n\nbob=c\n")
    assert read_passwords(file) == {"ann": "a=b", "bob": "c"}
    file.write_text("ann=a\nhidden\n")
    with pytest.raises(ConfigurationError, match="users:2: write a user") as refused:
        read_passwords(file)
    assert "hidden" not in str(refused.value)
