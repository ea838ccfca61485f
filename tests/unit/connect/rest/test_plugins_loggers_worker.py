"""`/`, `/health`, `/connector-plugins` and `/admin/loggers`."""

import asyncio

import pytest

from ottla_connect.herder.api import Health
from ottla_connect.rest.resources import root

JSON = {"Content-Type": "application/json"}


async def test_the_root_says_what_the_worker_is(rest):
    assert (await rest.get("/")).json() == {"version": "0.1.0", "commit": "abc", "kafka_cluster_id": "cluster"}


@pytest.mark.parametrize(("state", "code"), [("healthy", 200), ("starting", 503), ("unhealthy", 500)])
async def test_health_is_a_status_and_a_message(rest, herder, state, code):
    herder.state_of_health = Health(status=state, message="so it is")
    answer = await rest.get("/health")
    assert answer.status_code == code
    assert answer.json() == {"status": state, "message": "so it is"}


async def test_a_worker_that_does_not_answer_in_time_is_unhealthy(rest, herder, monkeypatch):
    monkeypatch.setattr(root, "HEALTH_TIMEOUT_S", 0.01)
    herder.held = asyncio.Event()
    answer = await rest.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (500, "unhealthy")


async def test_plugins_are_connectors_unless_all_are_wanted(rest):
    connectors = [
        {"class": "ottla_file.FileSink", "type": "sink", "version": "1.0"},
        {"class": "ottla_file.FileSource", "type": "source", "version": "1.0"},
    ]
    assert (await rest.get("/connector-plugins")).json() == connectors
    assert (await rest.get("/connector-plugins?connectorsOnly=true")).json() == connectors
    assert (await rest.get("/connector-plugins?connectorsOnly=false")).json() == [
        *connectors,
        {"class": "ottla_standard.JsonConverter", "type": "converter"},
        {"class": "damaged.plugin", "type": "broken", "version": "0.1", "error": "No module named 'gone'"},
    ]


async def test_a_plugins_settings_are_listed(rest):
    topic, batch = (await rest.get("/connector-plugins/FileSource/config")).json()
    assert list(topic) == [
        "name", "type", "required", "default_value", "importance", "documentation", "group", "order_in_group",
        "width", "display_name", "dependents",
    ]  # fmt: skip
    assert (topic["name"], topic["default_value"], topic["group"]) == ("topic", None, None)
    assert (batch["name"], batch["default_value"]) == ("batch.size", "2000")
    missing = await rest.get("/connector-plugins/none/config")
    assert missing.json() == {"error_code": 404, "message": "Unknown plugin none."}


async def test_bad_configuration_names_every_faulty_field_at_once(rest):
    config = {"connector.class": "ottla_file.FileSource", "tasks.max": "many"}
    answer = await rest.put("/connector-plugins/FileSource/config/validate", json=config)
    assert answer.status_code == 200
    document = answer.json()
    assert list(document) == ["name", "error_count", "groups", "configs"]
    assert document["error_count"] == 2
    faulty = {each["value"]["name"]: each["value"]["errors"] for each in document["configs"]}
    assert faulty == {
        "tasks.max": ["Input should be a valid integer"],
        "topic": ["must be set, there is no default"],
    }
    assert list(document["configs"][0]["value"]) == ["name", "value", "recommended_values", "errors", "visible"]


@pytest.mark.parametrize("plugin", ["FileSource", "ottla_file.FileSource", "FileSourceConnector"])
async def test_the_plugin_may_be_named_in_short_or_in_full(rest, plugin):
    config = {"connector.class": "ottla_file.FileSource", "topic": "t"}
    assert (await rest.put(f"/connector-plugins/{plugin}/config/validate", json=config)).status_code == 200


async def test_settings_for_another_plugin_are_refused(rest):
    config = {"connector.class": "ottla_file.FileSink"}
    answer = await rest.put("/connector-plugins/FileSource/config/validate", json=config)
    assert answer.json() == {
        "error_code": 400,
        "message": "Included connector type ottla_file.FileSink does not match request type FileSource",
    }


async def test_levels_are_listed_read_and_set(rest):
    assert (await rest.get("/admin/loggers")).json() == {"root": {"level": "INFO", "last_modified": None}}
    changed = await rest.put("/admin/loggers/ottla.x", json={"level": "debug"})
    assert (changed.status_code, changed.json()) == (200, ["ottla.x"])
    assert (await rest.get("/admin/loggers/ottla.x")).json() == {"level": "DEBUG", "last_modified": 17}
    missing = await rest.get("/admin/loggers/none")
    assert missing.json() == {"error_code": 404, "message": "Logger none not found."}


async def test_a_level_can_be_set_on_the_whole_cluster(rest):
    answer = await rest.put("/admin/loggers/ottla.x?scope=cluster", json={"level": "DEBUG"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await rest.put("/admin/loggers/ottla.x?scope=other", json={"level": "DEBUG"})).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{}", 400, 'The body names no level; write {"level": "DEBUG"}, for example'),
        ('{"level": null}', 400, 'The body names no level; write {"level": "DEBUG"}, for example'),
        ('{"level": "nope"}', 404, "invalid log level 'nope'."),
        ("", 500, "the request has no body; this resource takes JSON"),
    ],
)
async def test_a_level_that_is_none_is_refused(rest, body, status, message):
    answer = await rest.put("/admin/loggers/ottla.x", content=body, headers=JSON)
    assert (answer.status_code, answer.json()) == (status, {"error_code": status, "message": message})
