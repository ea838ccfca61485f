"""Validation names everything that is wrong with a connector's settings."""

import pytest

from ottla_connect.config import WorkerConfig
from ottla_connect.rest.entities import ConfigInfos
from ottla_connect.task.settings.validation import Validation
from ottla_sdk.runtime.config_providers import ConfigProviders
from ottla_sdk.runtime.plugin_lookup import PluginLookup
from ottla_sdk.runtime.redaction import Redaction

SOURCE = {"name": "s", "connector.class": "ListSource", "topic": "t"}
SINK = {"name": "s", "connector.class": "CollectingSink", "topics": "t"}


def infos(settings, worker=None):
    worker = worker or {}
    redaction, lookup = Redaction(), PluginLookup()
    return Validation(
        settings,
        worker=WorkerConfig.parse(worker),
        lookup=lookup,
        providers=ConfigProviders(worker, lookup, redaction),
        redaction=redaction,
    ).run()


def errors(settings, worker=None):
    document = infos(settings, worker)
    found = {
        each["value"]["name"]: each["value"]["errors"] for each in document["configs"] if each["value"]["errors"]
    }
    assert document["error_count"] == sum(map(len, found.values()))
    return found


def value_of(document, key):
    return next(each for each in document["configs"] if each["value"]["name"] == key)


def test_right_settings_have_no_errors():
    assert errors(SOURCE) == {}
    assert errors(SINK) == {}


def test_the_document_has_kafkas_shape():
    document = infos(SOURCE)
    assert set(document) == {"name", "error_count", "groups", "configs"}
    assert document["name"] == "ListSource"
    assert document["groups"][0] == "Common"
    assert {"Transforms", "Error Handling", "ListSource", "Faults"} <= set(document["groups"])
    assert value_of(document, "tasks.max") == {
        "definition": {
            "name": "tasks.max",
            "type": "INT",
            "required": False,
            "default_value": "1",
            "importance": "HIGH",
            "documentation": "Most tasks that the connector may have.",
            "group": "Common",
            "order_in_group": 3,
            "width": "SHORT",
            "display_name": "Tasks max",
            "dependents": [],
        },
        "value": {"name": "tasks.max", "value": "1", "recommended_values": [], "errors": [], "visible": True},
    }
    assert value_of(document, "topic")["definition"]["required"]


def test_every_faulty_setting_is_named_at_once():
    found = errors(
        {
            "name": "bad\nname",
            "connector.class": "ListSource",
            "tasks.max": "0",
            "errors.tolerance": "some",
            "list.count": "-1",
            "key.converter": "NoSuchConverter",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "perhaps",
            "transforms": "add,none,add",
            "transforms.add.type": "AddOne",
            "transforms.add.predicate": "nowhere",
            "transforms.none.negate": "true",
            "predicates": "odd",
            "predicates.odd.type": "NoSuchPredicate",
            "topic.creation.default.partitions": "no",
        }
    )
    assert not any("Value error" in each for said in found.values() for each in said)
    assert set(found) == {
        "name",
        "tasks.max",
        "errors.tolerance",
        "topic",
        "list.count",
        "key.converter",
        "value.converter.schemas.enable",
        "transforms",
        "transforms.add.field",
        "transforms.add.predicate",
        "transforms.none.type",
        "transforms.none.negate",
        "predicates.odd.type",
        "topic.creation.default.partitions",
        "topic.creation.default.replication.factor",
    }


def test_a_class_that_does_not_exist_is_told_along_with_the_rest():
    found = errors({"name": "x", "connector.class": "NoSuchConnector", "tasks.max": "many"})
    assert set(found) == {"connector.class", "tasks.max"}
    assert "NoSuchConnector" in found["connector.class"][0]


def test_a_missing_class_is_told():
    assert set(errors({"name": "x"})) == {"connector.class"}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"topics": ""}, {"topics", "topics.regex"}),
        ({"topics.regex": "t.*"}, {"topics", "topics.regex"}),
        ({"errors.deadletterqueue.topic.name": "t"}, {"topics"}),
        ({"topics": "", "topics.regex": "("}, {"topics.regex"}),
        ({"topics": "", "topics.regex": "dead.*", "errors.deadletterqueue.topic.name": "dead-1"}, {"topics.regex"}),
    ],
)
def test_a_sink_reads_either_a_list_of_topics_or_those_of_an_expression(changes, wrong):
    assert set(errors({**SINK, **changes})) == wrong


def test_the_connector_may_look_at_the_world():
    assert errors({**SOURCE, "list.password": "wrong"}) == {"list.password": ["the list does not like it"]}


def test_a_check_that_fails_itself_is_told():
    found = errors({**SOURCE, "fault.where": "check", "fault.kind": "bug"})
    assert found == {"connector.class": ["its check has failed: ValueError: check has a bug"]}


@pytest.fixture
def with_secrets(tmp_path):
    (tmp_path / "p.properties").write_text("password=wrong-secret\ncount=many-secrets\n")
    return tmp_path / "p.properties", {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
    }


def test_references_are_resolved_but_shown_as_they_are_written(with_secrets):
    path, worker = with_secrets
    reference = f"${{file:{path}:count}}"
    document = infos({**SOURCE, "list.count": reference}, worker)
    shown = value_of(document, "list.count")["value"]
    assert shown["value"] == reference
    assert shown["errors"]
    assert "many-secrets" not in str(document)


def test_a_reference_that_leads_nowhere_is_told_at_its_setting(with_secrets):
    path, worker = with_secrets
    found = errors({**SOURCE, "topic": f"${{file:{path}:nothing}}", "list.count": "-1"}, worker)
    assert set(found) == {"topic", "list.count"}


def test_client_overrides_go_by_the_workers_policy():
    settings = {**SINK, "consumer.override.max.poll.records": "5"}
    assert errors(settings) == {}
    found = errors(settings, {"connector.client.config.override.policy": "None"})
    assert set(found) == {"consumer.override.max.poll.records"}


def test_client_overrides_that_librdkafka_does_not_take_are_told_each():
    found = errors(
        {
            **SOURCE,
            "producer.override.no.such.setting": "5",
            "producer.override.linger.ms": "soon",
            "producer.override.compression.type": "lz4",
        }
    )
    assert set(found) == {"producer.override.no.such.setting", "producer.override.linger.ms"}


def test_client_overrides_that_need_each_other_are_right_together():
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "ann", "sasl.password": "4711"}
    assert errors({**SOURCE, **{f"producer.override.{key}": value for key, value in login.items()}}) == {}
    found = errors({**SOURCE, "producer.override.security.protocol": "SASL_PLAINTEXT"})
    assert set(found) == {"producer.override.sasl.mechanism"}


def test_the_value_of_an_override_that_is_refused_is_not_told_if_it_is_a_secret():
    key = "producer.override.sasl.jaas.config"
    document = infos({**SOURCE, key: "a secret in words that nobody reads"})
    assert document["error_count"] == 1
    assert "a secret" not in str(document)
    assert ConfigInfos.model_validate(document).error_count == 1


def test_client_overrides_that_have_no_counterpart_are_told():
    found = errors({**SOURCE, "producer.override.interceptor.classes": "x"})
    assert set(found) == {"producer.override.interceptor.classes"}


def test_a_secret_that_is_taken_for_a_class_is_not_named(with_secrets):
    path, worker = with_secrets
    reference = f"${{file:{path}:password}}"
    document = infos(
        {**SOURCE, "connector.class": reference, "transforms": "t", "transforms.t.type": reference}, worker
    )
    assert document["error_count"] > 1
    assert "wrong-secret" not in str(document)


def test_a_reference_that_nobody_resolves_is_refused_by_name():
    (said,) = errors({**SOURCE, "topic": "${env:TOPIC}"})["topic"]
    assert said.startswith(
        "${env:TOPIC} refers to a config provider env, which the worker does not have; it has: none"
    )
    provider = {"config.providers": "files", "config.providers.files.class": "FileConfigProvider"}
    assert "it has: files" in errors({**SOURCE, "topic": "${env:TOPIC}"}, provider)["topic"][0]


def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant():
    assert errors({**SOURCE, "task.max": "2"}) == {"task.max": ["there is no such setting; did you mean tasks.max?"]}
    assert errors({**SINK, "collect.pth": "/x"}) == {
        "collect.pth": ["there is no such setting; did you mean collect.path?"]
    }


def test_settings_that_nobody_knows_are_ignored_otherwise():
    assert errors({**SOURCE, "owner.team": "data", "producer.override.linger.ms": "5"}) == {}


def test_a_sink_with_a_pattern_of_topics_is_not_asked_for_topics():
    settings = {key: value for key, value in SINK.items() if key != "topics"}
    assert errors({**settings, "topics.regex": "t.*", "topic": "ignored"}) == {}


ENABLED = {"exactly.once.source.support": "enabled"}
REQUIRED = {**SOURCE, "exactly.once.support": "required"}


def test_a_connector_that_can_may_be_required_to_have_every_record_once():
    assert errors({**REQUIRED, "list.exactly.once": "yes"}, ENABLED) == {}
    assert errors({**SOURCE, "exactly.once.support": "Requested"}) == {}


@pytest.mark.parametrize(
    ("says", "worker", "message"),
    [
        ("yes", {}, "workers must have exactly.once.source.support=enabled"),
        ("yes", {"exactly.once.source.support": "preparing"}, "this one has preparing"),
        ("no", ENABLED, "cannot have every record exactly once with these settings"),
        ("", ENABLED, "does not say whether it can"),
    ],
)
def test_what_cannot_have_every_record_once_is_refused_where_that_is_required(says, worker, message):
    (problem,) = errors({**REQUIRED, "list.exactly.once": says}, worker)["exactly.once.support"]
    assert message in problem


def test_a_connector_that_cannot_end_transactions_must_not_be_asked_to():
    own = {**SOURCE, "transaction.boundary": "connector"}
    assert errors({**own, "list.commit.on": "3"}, ENABLED) == {}
    assert "poll or interval" in errors(own, ENABLED)["transaction.boundary"][0]
    assert "transaction.boundary" in errors({**SOURCE, "transaction.boundary": "never"})
    assert "transaction.boundary.interval.ms" in errors({**SOURCE, "transaction.boundary.interval.ms": "0"})


def test_an_offsets_topic_of_a_connectors_own_is_refused_by_name():
    assert "remove it" in errors({**SOURCE, "offsets.storage.topic": "mine"})["offsets.storage.topic"][0]
    assert errors({**SOURCE, "offsets.storage.topic": "connect-offsets"}) == {}
