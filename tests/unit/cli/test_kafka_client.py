"""Addresses, properties and the first contact."""

import pytest

from ottla.kafka_client import client_config, parse_assignments
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import check_reachable, split_address
from tests.support.free_ports import free_port


@pytest.mark.parametrize(
    ("address", "meant"),
    [("host:1", ("host", 1)), ("host", ("host", 9092)), ("[::1]:2", ("::1", 2)), ("[::1]", ("::1", 9092))],
)
def test_an_address_is_host_and_port(address, meant):
    assert split_address(address) == meant


@pytest.mark.parametrize("address", ["host:", ":1", "host:port"])
def test_what_is_no_address_is_wrong_usage(address):
    with pytest.raises(UsageProblem) as caught:
        split_address(address)
    assert caught.value.exit_code == 2


def test_a_cluster_that_is_not_there_is_named_at_once():
    port = free_port()
    with pytest.raises(OperationError, match=rf"cannot reach 127.0.0.1:{port} \(Connection refused\)"):
        check_reachable(f"127.0.0.1:{port}")


def test_assignments_are_pairs():
    assert parse_assignments(["a=b=c", " d = "], "--config") == {"a": "b=c", "d": ""}
    with pytest.raises(UsageProblem, match="--config a: write it as KEY=VALUE"):
        parse_assignments(["a"], "--config")


@pytest.mark.parametrize("key", ["bootstrap.servers", "metadata.broker.list"])
def test_brokers_have_one_option_so_that_no_others_are_sent_a_clusters_logins(key):
    with pytest.raises(UsageProblem, match=f"--property {key}: name brokers with --bootstrap"):
        client_config("a:1", [f"{key}=b:2"])


def test_properties_may_have_the_names_of_javas_clients():
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s";'
    config = client_config("a:1", ["sasl.mechanism=PLAIN", f"sasl.jaas.config={login}", "max.request.size=7"])
    told = {key: config[key] for key in ("bootstrap.servers", "sasl.username", "sasl.password", "message.max.bytes")}
    assert told == {"bootstrap.servers": "a:1", "sasl.username": "me", "sasl.password": "s", "message.max.bytes": "7"}


@pytest.mark.parametrize("typed", ["sasl.mechanism=GSSAPI", "sasl.kerberos.principal=me", "test.mock.num.brokers=1"])
def test_who_types_a_command_may_run_what_comes_with_a_setting(typed):
    key, _, value = typed.partition("=")
    assert client_config("a:1", [typed])[key] == value


def test_a_property_without_counterpart_is_named_with_what_to_write():
    with pytest.raises(UsageProblem, match=r"--property partitioner\.class: .* write librdkafka's partitioner"):
        client_config("a:1", ["partitioner.class=x.Y"])


def test_what_is_typed_wins_over_the_profile_whatever_names_it_has(monkeypatch):
    saved = {"socket.timeout.ms": "1", "request.timeout.ms": "2"}
    monkeypatch.setattr("ottla.kafka_client.client_settings", lambda _: saved)
    assert client_config("a:1", ["socket.timeout.ms=3"])["socket.timeout.ms"] == "3"
    assert client_config("a:1", ["request.timeout.ms=4"])["socket.timeout.ms"] == "4"
