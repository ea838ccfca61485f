"""Files that describe connectors: what is read from them, and what is refused."""

import pytest

from ottla.connect.connector_files import (
    BadConnectorFile,
    ConnectorDescription,
    parse_connectors,
    with_changes,
)


def only(text: str) -> ConnectorDescription:
    (found,) = parse_connectors(text, "f.yaml")
    return found


@pytest.mark.parametrize(
    "text",
    [
        "name: a\nconnector.class: S\ntasks.max: 2\n",
        "name: a\nconfig:\n  connector.class: S\n  tasks.max: 2\n",
        "config: {name: a, connector.class: S, tasks.max: 2}",
        '{"name": "a", "config": {"connector.class": "S", "tasks.max": 2}}',
        '{"name": "a", "connector.class": "S", "tasks.max": "2"}',
        '{\n\t"name": "a",\n\t"config": {"connector.class": "S", "tasks.max": "2", "name": "a"}\n}',
        "- name: a\n  connector.class: S\n  tasks.max: 2\n",
        "{name: a, connector.class: S, tasks.max: 2}",
    ],
)
def test_settings_alone_and_requests_are_read_as_yaml_and_as_json(text):
    assert only(text) == ConnectorDescription("a", {"connector.class": "S", "tasks.max": "2"})


def test_values_stay_as_they_are_written():
    text = (
        "name: a\nyes: yes\ndate: 2013-01-02\ntime: 12:30:00\nnumber: 010\nfloat: 1.50\nbig: 1e400\n"
        "empty: ''\nlist: [a, b]\nhex: 0x1F\n"
    )
    assert only(text).config == {
        "yes": "yes", "date": "2013-01-02", "time": "12:30:00", "number": "010", "float": "1.50", "big": "1e400",
        "empty": "", "list": "a,b", "hex": "0x1F",
    }  # fmt: skip
    assert only('{"name": "a", "x": 1.50, "y": true, "z": ["a", "b"]}').config == {
        "x": "1.50", "y": "true", "z": "a,b",
    }  # fmt: skip


def test_a_file_may_hold_several_connectors_which_share_settings():
    text = "name: a\nx: &s {k: v}\n---\n"
    with pytest.raises(BadConnectorFile, match="f: x: a setting is text"):
        parse_connectors(text, "f")
    shared = "- &first {name: a, connector.class: S}\n- {<<: *first, name: b}\n---\nname: c\nconnector.class: T\n"
    found = parse_connectors(shared, "f")
    assert [(each.name, each.plugin) for each in found] == [("a", "S"), ("b", "S"), ("c", "T")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "describes no connector"),
        ("---\n", "describes no connector"),
        ("[]", "describes no connector"),
        ("just words", "a connector is a mapping"),
        ("{", "neither YAML nor JSON"),
        ("a: b: c", "neither YAML nor JSON"),
        ("a: !!python/object:os.system x", "neither YAML nor JSON"),
        ("[" * 100_000, "f"),
        ("name: a\nkey: null\n", "key: it has no value"),
        ("name: a\nkey:\n", "key: it has no value"),
        ("name: a\nkey: {x: 1}\n", "key: a setting is text"),
        ("name: a\nconfig: {}\ntopic: t\n", "beside config there is no topic"),
        ("name: a\nconfig: [1]\n", "config is a mapping"),
        ("name: a\nconfig: {name: b}\n", "two names, a and b"),
        ("name: a\nconfig: {}\ninitial_state: asleep\n", "running, paused, stopped, not asleep"),
        ("- {name: a}\n- 5\n", "connector 2: a connector is a mapping"),
    ],
)
def test_what_is_no_connector_is_refused_with_its_place(text, words):
    with pytest.raises(BadConnectorFile, match=words) as refusal:
        parse_connectors(text, "f")
    assert "\n" not in str(refusal.value)


def test_an_initial_state_is_read():
    assert only("name: a\nconfig: {x: y}\ninitial_state: STOPPED\n").initial_state == "stopped"


def test_what_is_typed_wins_over_the_file():
    connectors = [ConnectorDescription("a", {"x": "1", "y": "2"})]
    changed = with_changes(connectors, name="b", settings={"x": "9", "z": "3"}, initial_state="paused")
    assert changed == [ConnectorDescription("b", {"x": "9", "y": "2", "z": "3"}, "paused")]


@pytest.mark.parametrize(
    ("connectors", "name", "words"),
    [
        (["a", "b"], "c", "2 connectors, which cannot all be called c"),
        (["a", "b", "a"], None, "several connectors have the name a"),
        ([""], None, "has no name"),
    ],
)
def test_names_must_be_there_once(connectors, name, words):
    described = [ConnectorDescription(each) for each in connectors]
    with pytest.raises(BadConnectorFile, match=words):
        with_changes(described, name=name, settings={}, initial_state=None)
