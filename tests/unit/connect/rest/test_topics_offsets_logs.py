"""A connector's topics, offsets and log lines."""

import pytest

from ottla_connect.connector_states import TargetState
from ottla_connect.rest.options import RestOptions

PARTITION = {"kafka_topic": "t", "kafka_partition": 0}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def connector(herder):
    herder.configs["first"] = {"connector.class": "ottla_file.FileSink", "name": "first"}
    herder.targets["first"] = TargetState.STARTED
    herder.used_topics["first"] = ["t", "u"]


async def test_topics_are_listed_by_connector_and_can_be_reset(rest):
    assert (await rest.get("/connectors/first/topics")).json() == {"first": {"topics": ["t", "u"]}}
    reset = await rest.put("/connectors/first/topics/reset")
    assert (reset.status_code, reset.content) == (202, b"")
    assert (await rest.get("/connectors/first/topics")).json() == {"first": {"topics": []}}


class TestWithoutResets:
    @pytest.fixture
    def options(self) -> RestOptions:
        return RestOptions(topic_tracking_reset=False)

    async def test_topics_cannot_be_reset_where_that_is_forbidden(self, rest):
        answer = await rest.put("/connectors/first/topics/reset")
        assert answer.json() == {"error_code": 403, "message": "Topic tracking reset is disabled."}
        assert (await rest.get("/connectors/first/topics")).status_code == 200


class TestWithoutTracking:
    @pytest.fixture
    def options(self) -> RestOptions:
        return RestOptions(topic_tracking=False)

    async def test_topics_are_not_told_where_they_are_not_recorded(self, rest):
        for answer in (await rest.get("/connectors/first/topics"), await rest.put("/connectors/first/topics/reset")):
            assert answer.status_code == 403
            assert answer.json() == {"error_code": 403, "message": "Topic tracking is disabled."}


async def test_offsets_can_be_read_set_and_removed_while_the_connector_is_stopped(rest, herder):
    assert (await rest.get("/connectors/first/offsets")).json() == {"offsets": []}
    document = {"offsets": [{"partition": PARTITION, "offset": {"kafka_offset": 5}}]}
    refused = await rest.patch("/connectors/first/offsets", json=document)
    assert refused.status_code == refused.json()["error_code"] == 400
    herder.targets["first"] = TargetState.STOPPED
    altered = await rest.patch("/connectors/first/offsets", json=document)
    assert altered.json() == {"message": "The offsets for this connector have been altered successfully"}
    assert (await rest.get("/connectors/first/offsets")).json() == document
    removed = await rest.delete("/connectors/first/offsets")
    assert removed.json() == {"message": "The offsets for this connector have been reset successfully"}
    assert (await rest.get("/connectors/first/offsets")).json() == {"offsets": []}


async def test_an_offset_of_null_removes_a_partitions_offset(rest, herder):
    herder.targets["first"] = TargetState.STOPPED
    answer = await rest.patch(
        "/connectors/first/offsets", json={"offsets": [{"partition": PARTITION, "offset": None}]}
    )
    assert answer.status_code == 200
    assert herder.stored_offsets["first"] == []


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("{}", 400, "sets no offsets"),
        ('{"offsets": []}', 400, "sets no offsets"),
        ('{"offsets": {}}', 500, '"offsets" must be an array, not an object'),
        ('{"unknown": []}', 500, "no field unknown; there are offsets"),
        ('{"offsets": [{"partition": {}, "offset": {}, "x": 1}]}', 500, "no field x"),
        ('{"offsets": [{"offset": null}]}', 400, 'item 0 of "offsets" has no "partition"'),
        ('{"offsets": [{"partition": [], "offset": null}]}', 500, "not an array"),
        ('{"offsets": [{"partition": {}, "offset": 7}]}', 500, '"offset" in item 0'),
        ("[]", 500, "must be a JSON object"),
    ],
)
async def test_offsets_of_another_shape_are_refused(rest, body, status, words):
    answer = await rest.patch("/connectors/first/offsets", content=body, headers=JSON)
    assert answer.status_code == status
    assert words in answer.json()["message"]


@pytest.mark.parametrize("method", ["get", "delete"])
async def test_offsets_of_a_connector_that_is_not_there_are_404(rest, method):
    assert (await rest.request(method, "/connectors/none/offsets")).status_code == 404


async def test_log_lines_are_of_the_connector_or_of_a_task(rest, herder):
    answer = await rest.get("/connectors/first/logs")
    assert answer.json() == {"connector": "first", "task": None, "lines": ["line 0", "line 1", "line 2"]}
    answer = await rest.get("/connectors/first/logs?task=1&lines=2")
    assert answer.json() == {"connector": "first", "task": 1, "lines": ["line 0", "line 1"]}
    await rest.get("/connectors/first/logs?lines=999999999")
    assert herder.log_requests == [("first", None, 100), ("first", 1, 2), ("first", None, 10_000)]


@pytest.mark.parametrize("query", ["task=x", "lines=-1", "lines=1.5", "lines=99999999999"])
async def test_odd_numbers_of_tasks_and_lines_are_refused(rest, query):
    answer = await rest.get(f"/connectors/first/logs?{query}")
    assert answer.status_code == answer.json()["error_code"] == 400
    assert "whole number" in answer.json()["message"]
