"""Settings of a broker's process that change while it runs."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla_broker.config import BrokerConfig
from ottla_broker.dynamic_config import as_started, keep_applied, with_dynamic
from ottla_core.cluster.state.model import ClusterState
from ottla_core.dynamic_broker_config import (
    APPLIED,
    AT_START,
    KEPT,
    PROCESS_DEFINITIONS,
    check_process_configs,
    is_applied,
)
from ottla_core.errors import InvalidConfig
from tests.support.groups.group_cluster import StatedFeed

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"

CONFIG = BrokerConfig.model_validate(
    {
        "node.id": 1,
        "listeners": "PLAINTEXT://127.0.0.1:9192",
        "log.dirs": "/a,/b",
        "log.retention.hours": "3",
        "max.connections": "100",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
    }
)


def test_a_brokers_own_setting_comes_before_that_of_all_and_that_before_the_file() -> None:
    for configs, expected in (
        ({}, 100),
        ({None: {"max.connections": "7"}}, 7),
        ({None: {"max.connections": "7"}, 1: {"max.connections": "8"}}, 8),
        ({2: {"max.connections": "9"}}, 100),
    ):
        changed = with_dynamic(CONFIG, configs, is_applied)
        assert changed.max_connections == expected
        assert (changed.listeners, changed.log_dirs) == (CONFIG.listeners, (Path("/a"), Path("/b")))
        assert changed.topic_settings == {"log.retention.hours": "3"}


def test_a_broker_with_logins_goes_by_changed_settings_as_well() -> None:
    of_listener = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.logins.plain.sasl.jaas.config": f"{PLAIN_MODULE} required"
        ' username="a" password="secret-of-a" user_a="secret-of-a";',
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    others = {
        "node.id": 1,
        "listeners": "LOGINS://127.0.0.1:9192",
        "listener.security.protocol.map": "LOGINS:SASL_PLAINTEXT",
        "log.dirs": "/a",
        "config.providers": "files",
        "config.providers.files.class": "FileConfigProvider",
    }
    config = BrokerConfig.model_validate({**others, **of_listener})
    changed = with_dynamic(config, {None: {"max.connections": "7"}}, is_applied)
    assert changed.max_connections == 7
    assert (changed.listener_values, changed.config_providers) == (config.listener_values, config.config_providers)


def test_what_takes_effect_at_the_start_does_so_then_alone() -> None:
    configs = {None: {"num.replica.fetchers": "4", "max.connections": "7"}}
    assert with_dynamic(CONFIG, configs, is_applied).num_replica_fetchers == 1
    started = as_started(CONFIG, configs)
    assert (started.num_replica_fetchers, started.max_connections) == (4, 100)


def test_changes_are_applied_as_they_come_and_undone_as_they_go() -> None:
    feed, seen = StatedFeed(ClusterState()), []
    keep_applied(CONFIG, feed, lambda config: seen.append(config.max_connections))  # type: ignore[arg-type]
    feed.publish(broker_configs={None: {"max.connections": "7"}})
    feed.publish(topics={})
    feed.publish(broker_configs={})
    assert seen == [100, 7, 100]


def test_what_contradicts_the_file_leaves_the_settings_as_they_were() -> None:
    feed, seen = StatedFeed(ClusterState()), []
    keep_applied(CONFIG, feed, lambda config: seen.append(config.log_cleaner_threads))  # type: ignore[arg-type]
    with capture_logs() as logs:
        feed.publish(broker_configs={1: {"log.cleaner.threads": "5"}})
    assert seen == [1]
    assert [entry["log_level"] for entry in logs] == ["error"]


def test_every_setting_that_takes_effect_is_one_of_the_broker() -> None:
    known = BrokerConfig.known_keys()
    assert {*APPLIED, *AT_START} <= known
    assert not known & set(KEPT)


@pytest.mark.parametrize("name", PROCESS_DEFINITIONS)
def test_the_defaults_are_values_that_can_be_set(name: str) -> None:
    field = BrokerConfig.fields_by_key().get(name)
    text = "1" if field is None else str(BrokerConfig.model_fields[field].get_default())
    check_process_configs({name: text})


@pytest.mark.parametrize(
    "configs",
    [
        {"max.connections": "0"},
        {"log.cleaner.threads": "many"},
        {"log.cleaner.io.buffer.load.factor": "1.5"},
        {"log.cleaner.threads": "9", "log.cleaner.dedupe.buffer.size": str(4 << 20)},
    ],
)
def test_what_cannot_be_is_refused(configs: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        check_process_configs(configs)
