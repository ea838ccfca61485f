"""`/connectors`: making, listing, reading, changing and deleting connectors, as Kafka Connect 4.2 answers."""

import json

import pytest

from ottla_connect.connector_states import TargetState
from ottla_core.rest.errors import NotFound

SOURCE = {"connector.class": "ottla_file.FileSource", "topic": "t"}


async def made(rest, name: str = "first", **more: object) -> None:
    answer = await rest.post("/connectors", json={"name": name, "config": SOURCE, **more})
    assert answer.status_code == 201, answer.text


async def test_a_created_connector_is_returned_with_its_location(rest):
    answer = await rest.post("/connectors", json={"name": "first", "config": SOURCE})
    assert answer.status_code == 201
    assert answer.headers["location"] == "http://worker-1:8083/connectors/first"
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "name": "first",
        "config": {**SOURCE, "name": "first"},
        "tasks": [{"connector": "first", "task": 0}],
        "type": "source",
    }


async def test_a_new_connectors_name_loses_the_whitespace_around_it(rest):
    answer = await rest.post("/connectors", json={"name": "  first ", "config": SOURCE})
    assert answer.json()["name"] == answer.json()["config"]["name"] == "first"


@pytest.mark.parametrize("state", ["STOPPED", "stopped", "Paused", "RUNNING"])
async def test_a_connector_can_be_made_in_any_state(rest, herder, state):
    await made(rest, initial_state=state)
    wanted = {"STOPPED": TargetState.STOPPED, "PAUSED": TargetState.PAUSED, "RUNNING": TargetState.STARTED}
    assert herder.targets["first"] is wanted[state.upper()]


async def test_numbers_and_booleans_become_the_strings_that_were_written(rest, herder):
    values = '"a": 1.0, "b": true, "c": 1e5, "d": 12345678901234567890123'
    text = f'{{"name": "n", "config": {{"connector.class": "S", {values}}}}}'
    answer = await rest.post("/connectors", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    assert {key: herder.configs["n"][key] for key in "abcd"} == {
        "a": "1.0", "b": "true", "c": "1e5", "d": "12345678901234567890123",
    }  # fmt: skip


async def test_a_second_connector_of_a_name_is_refused(rest):
    await made(rest)
    answer = await rest.post("/connectors", json={"name": "first", "config": SOURCE})
    assert answer.status_code == 409
    assert answer.json() == {"error_code": 409, "message": "Connector first already exists"}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("", 500, "no body"),
        ("{", 500, "no JSON"),
        ("null", 500, "must be a JSON object"),
        ("[]", 500, "must be a JSON object, not an array"),
        ('"x"', 500, 'not "x"'),
        ("{} x", 500, "Extra data"),
        ('{"name": "x", "config": {"a": NaN}}', 500, "NaN"),
        (b'{"name": "\xff"}', 500, "no JSON"),
        ('{"name": "\\ud800", "config": {}}', 500, "surrogate"),
        ("[" * 100_000, 500, "nested too deeply"),
        ('{"name": "x"}', 500, '"config" is missing'),
        ('{"name": "x", "config": null}', 500, '"config" is missing'),
        ('{"name": "x", "config": []}', 500, '"config" must be a JSON object, not an array'),
        ('{"name": "x", "config": {"a": {"b": 1}}}', 500, "setting a"),
        ('{"name": "x", "config": {"a": null, "b": "1", "c": null}}', 400, "a, c"),
        ('{"name": "x", "config": {}, "extra": 5}', 500, "no field extra; there are name, config, initial_state"),
        ('{"name": {}, "config": {}}', 500, '"name" must be a string'),
        ('{"name": "x", "config": {}, "initial_state": "nope"}', 500, "RUNNING, PAUSED, STOPPED"),
        ('{"name": "x", "config": {}}', 400, "contains no connector type"),
        ('{"name": "x", "config": {"name": "y"}}', 400, "the URL names x"),
        ('{"name": "", "config": {}}', 400, "may not be empty"),
        ('{"config": {}}', 400, "may not be empty"),
        ('{"name": "a\\tb", "config": {}}', 400, "U+0009"),
        ('{"name": "a\\u0085b", "config": {}}', 400, "U+0085"),
    ],
)
async def test_a_bad_body_is_answered_as_by_kafka_and_says_what_is_wrong(rest, herder, body, status, words):
    answer = await rest.post("/connectors", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error_code"] == status
    assert words in answer.json()["message"]
    assert not herder.configs


@pytest.mark.parametrize("media_type", ["text/plain", "application/vnd.api+json", None])
async def test_a_body_that_is_not_declared_to_be_json_is_refused(rest, media_type):
    headers = {} if media_type is None else {"Content-Type": media_type}
    answer = await rest.post("/connectors", content=b'{"name": "x"}', headers=headers)
    assert answer.status_code == answer.json()["error_code"] == 415
    assert answer.json()["message"].startswith("HTTP 415 Unsupported Media Type")


async def test_the_media_type_may_be_in_capitals_and_name_a_character_set(rest):
    body = json.dumps({"name": "x", "config": SOURCE})
    answer = await rest.post("/connectors", content=body, headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 201


async def test_a_body_that_is_too_large_is_refused(rest):
    answer = await rest.post("/connectors", content=b"x" * 20_000_001, headers={"Content-Type": "application/json"})
    assert answer.status_code == answer.json()["error_code"] == 413


async def test_the_list_has_the_names(rest):
    assert (await rest.get("/connectors")).json() == []
    await made(rest, "b")
    await made(rest, "a")
    assert (await rest.get("/connectors")).json() == ["a", "b"]
    assert (await rest.get("/connectors/")).json() == ["a", "b"]


async def test_the_list_can_be_expanded(rest):
    await made(rest)
    answer = await rest.get("/connectors?expand=status&expand=info&expand=other")
    assert answer.json() == {
        "first": {
            "status": {
                "name": "first",
                "connector": {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "1.0"},
                "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "1.0"}],
                "type": "source",
            },
            "info": (await rest.get("/connectors/first")).json(),
        }
    }
    assert (await rest.get("/connectors?expand=other")).json() == {"first": {}}
    assert (await rest.get("/connectors?expand")).json() == {"first": {}}


async def test_a_connector_that_is_deleted_while_the_list_is_made_is_left_out(rest, herder, monkeypatch):
    await made(rest, "a")
    await made(rest, "b")
    info = herder.connector_info

    def vanishing(name: str):
        if name == "a":
            raise NotFound("Connector a not found")
        return info(name)

    monkeypatch.setattr(herder, "connector_info", vanishing)
    assert list((await rest.get("/connectors?expand=info")).json()) == ["b"]


async def test_a_connector_and_its_settings_can_be_read(rest):
    await made(rest)
    assert (await rest.get("/connectors/first")).json()["name"] == "first"
    assert (await rest.get("/connectors/first/")).json()["name"] == "first"
    assert (await rest.get("/connectors/first/config")).json() == {**SOURCE, "name": "first"}


@pytest.mark.parametrize("path", ["/connectors/none", "/connectors/none/config"])
async def test_a_connector_that_is_not_there_is_404(rest, path):
    answer = await rest.get(path)
    assert answer.status_code == 404
    assert answer.json() == {"error_code": 404, "message": "Connector none not found"}


async def test_putting_settings_creates_or_replaces(rest):
    created = await rest.put("/connectors/first/config", json=SOURCE)
    assert created.status_code == 201
    assert created.headers["location"] == "http://worker-1:8083/connectors/first"
    replaced = await rest.put("/connectors/first/config", json={**SOURCE, "topic": "u", "name": "first"})
    assert replaced.status_code == 200
    assert "location" not in replaced.headers
    assert replaced.json()["config"] == {**SOURCE, "topic": "u", "name": "first"}


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("first", '{"name": "other"}', 400, "name the connector other"),
        ("first", "null", 500, "must be a JSON object, not null"),
        ("first", "[1]", 500, "not an array"),
        ("first", '{"a": null}', 400, "Null is not a value of a setting: a"),
        ("%20first", "{}", 400, "begins or ends with whitespace"),
        ("a%09b", "{}", 400, "U+0009"),
    ],
)
async def test_bad_settings_are_not_put(rest, name, body, status, words):
    headers = {"Content-Type": "application/json"}
    answer = await rest.put(f"/connectors/{name}/config", content=body, headers=headers)
    assert answer.status_code == status
    assert words in answer.json()["message"]


async def test_a_connector_of_an_odd_name_that_is_there_already_can_be_changed(rest, herder):
    herder.configs[" odd "] = dict(SOURCE)
    assert (await rest.put("/connectors/%20odd%20/config", json=SOURCE)).status_code == 200


async def test_a_patch_changes_some_settings_and_null_removes_one(rest):
    await made(rest)
    answer = await rest.patch("/connectors/first/config", json={"topic": None, "tasks.max": 2})
    assert answer.status_code == 200
    config = {"connector.class": SOURCE["connector.class"], "name": "first", "tasks.max": "2"}
    assert answer.json()["config"] == config
    assert (await rest.patch("/connectors/none/config", json={})).status_code == 404
    assert (await rest.patch("/connectors/first/config", content="null")).status_code == 415
    refused = await rest.patch(
        "/connectors/first/config", content="null", headers={"Content-Type": "application/json"}
    )
    assert refused.status_code == 500


async def test_a_deleted_connector_is_gone(rest):
    await made(rest)
    deleted = await rest.delete("/connectors/first")
    assert (deleted.status_code, deleted.content) == (204, b"")
    again = await rest.delete("/connectors/first")
    assert (again.status_code, again.json()["message"]) == (404, "Connector first not found")


@pytest.mark.parametrize("name", ["a/b", "a b", "100%", "%2F", "é€😀", "a;b=c", "a+b", "a?b#c", "a\\b", "a:b"])
async def test_a_name_may_have_any_character_when_it_is_escaped(rest, herder, name):
    answer = await rest.post("/connectors", json={"name": name, "config": SOURCE})
    assert answer.status_code == 201
    location = answer.headers["location"]
    assert (await rest.get(location)).json()["name"] == name
    path = location.removeprefix("http://worker-1:8083")
    assert (await rest.get(f"{path}/status")).json()["name"] == name
    assert (await rest.get(f"{path}/tasks/0/status")).json()["id"] == 0
    assert (await rest.delete(location)).status_code == 204
    assert not herder.configs
