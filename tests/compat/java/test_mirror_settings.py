"""Every setting that Kafka documents for MirrorMaker 2 is honoured, refused by name, or without effect."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

from ottla_mirror.config.flow_settings import FlowSettings
from ottla_mirror.config.settings_table import Fate, client_fate, is_client_key, known_mirror_keys, mirror_fate
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_standard.mirror.filters import (
    ConfigPropertyFilterConfig,
    GroupFilterConfig,
    TopicFilterConfig,
)
from ottla_standard.mirror.replication_policies import ReplicationPolicyConfig
from tests.support.reference.kafka_jars import kafka_classpath

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SOURCE = Path(__file__).with_name("MirrorSettings.java")
PLUGINS = (TopicFilterConfig, GroupFilterConfig, ConfigPropertyFilterConfig, ReplicationPolicyConfig)


@cache
def kafkas() -> dict[str, set[str]]:
    command = ["java", "-cp", kafka_classpath(), str(SOURCE)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    names: dict[str, set[str]] = {}
    for line in told.splitlines():
        kind, _, name = line.partition("\t")
        names.setdefault(kind, set()).add(name)
    return names


def fields() -> set[str]:
    own = FlowSettings.known_keys() | WorkerSettings.known_keys()
    return set(own).union(*(plugin.keys() for plugin in PLUGINS))


def test_every_setting_of_mirrormaker_has_a_fate():
    undecided = {
        key
        for key in kafkas()["mirror"]
        if key not in fields() and mirror_fate(key)[0] is Fate.UNKNOWN and not is_client_key(key)
    }
    assert undecided == set()


def test_every_setting_of_kafkas_clients_has_a_fate():
    assert {key for key in kafkas()["client"] if client_fate(key)[0] is Fate.UNKNOWN} - {"config.providers"} == set()


def test_every_setting_of_connects_workers_has_a_fate():
    undecided = {
        key
        for key in kafkas()["worker"]
        if key not in fields() and mirror_fate(key)[0] is Fate.UNKNOWN and client_fate(key)[0] is Fate.UNKNOWN
    }
    assert undecided == set()


def test_the_tables_have_no_setting_that_kafka_does_not_have():
    connectors = {"topic.creation.enable", "topic.creation.groups", "exactly.once.support", "offsets.storage.topic"}
    known = kafkas()["mirror"] | kafkas()["worker"] | connectors
    assert {key for key in known_mirror_keys() if key not in known} == set()


def test_no_setting_has_a_field_and_another_fate():
    assert {key for key in fields() if mirror_fate(key)[0] is not Fate.UNKNOWN} <= {"source.cluster.alias"}
