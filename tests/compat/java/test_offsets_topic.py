"""Kafka's own tools decode `__consumer_offsets`: its console formatters, and DumpLogSegments on the files."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_crew import Crew, PythonClient, Variant
from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import run_tool, run_tool_anyhow
from tests.support.clusters.broker_under_test import BrokerUnderTest
from tests.support.requirements import does_not_apply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

CLIENT = PythonClient("tests.compat.confluent.member")
CLASSIC = Variant(name="classic", assignor="range")
CONSUMER = Variant(name="consumer", protocol="consumer")
OFFSETS_TOPIC = "__consumer_offsets"
# The console consumer ends when nothing new has come for so long.
SILENCE_MS = 8000
# What the type of a record's key says.
OFFSET_COMMIT, CLASSIC_GROUP = 1, 2
CONSUMER_GROUP_TYPES = {
    3: "the group's epoch",
    5: "a member's subscription",
    6: "the assignment's epoch",
    7: "what a member shall own",
    8: "what a member owns",
}


def formatted(bootstrap: str, formatter: str, group: str) -> list[dict[str, Any]]:
    """What the console consumer shows of the topic through a formatter, only of one group."""
    output = run_tool_anyhow(
        kafka_tools.CONSOLE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC, "--from-beginning"),
        *("--timeout-ms", str(SILENCE_MS), "--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    assert "Exception" not in output.replace("TimeoutException", ""), output
    return [record for record in _documents(output) if record["key"]["data"].get("group") == group]


def used_group(crew: Crew) -> Crew:
    """A group whose member has committed twice and left."""
    member = crew.start(instance_id="desk")
    crew.settle(member)
    for offset, note in ((3, "first"), (5, "second")):
        member.commit(dict.fromkeys(crew.partitions, offset), metadata=note)
    member.leave()
    return crew


def test_committed_offsets_are_formatted(bootstrap: str, new_crew: CrewFactory) -> None:
    crew = used_group(new_crew(CLIENT, CLASSIC))
    records = formatted(bootstrap, "OffsetsMessageFormatter", crew.group)
    by_partition: dict[int, list[tuple[int, str]]] = {}
    for record in records:
        assert (record["key"]["type"], record["key"]["data"]["topic"]) == (1, crew.topic)
        value = record["value"]["data"]
        assert value["commitTimestamp"] > 0
        shown = (value["offset"], _metadata(value))
        by_partition.setdefault(record["key"]["data"]["partition"], []).append(shown)
    assert by_partition == {number: [(3, "first"), (5, "second")] for _, number in crew.partitions}


def test_classic_groups_are_formatted(bootstrap: str, new_crew: CrewFactory) -> None:
    crew = used_group(new_crew(CLIENT, CLASSIC))
    records = formatted(bootstrap, "GroupMetadataMessageFormatter", crew.group)
    values = [record["value"]["data"] for record in records if record["value"]]
    assert {record["key"]["type"] for record in records} == {CLASSIC_GROUP}
    with_members = [value for value in values if value["members"]]
    (member,) = with_members[-1]["members"]
    assert (with_members[-1]["protocol"], member["groupInstanceId"], member["sessionTimeout"]) == (
        "range",
        "desk",
        6000,
    )
    assert member["memberId"].startswith("desk-")
    assert member["clientHost"] == "/127.0.0.1"


def test_every_record_of_both_protocols_is_dumped(
    broker: BrokerUnderTest, bootstrap: str, new_crew: CrewFactory
) -> None:
    if broker.data is None:
        does_not_apply("the broker's files are not known")
    classic, consumer = used_group(new_crew(CLIENT, CLASSIC)), used_group(new_crew(CLIENT, CONSUMER))
    files = sorted(broker.data.rglob(f"{OFFSETS_TOPIC}-*/*.log"))
    output = run_tool(
        kafka_tools.DUMP_LOG_SEGMENTS, "--offsets-decoder", "--files", ",".join(str(path) for path in files)
    )
    assert not [line for line in output.splitlines() if "isvalid: false" in line or "Exception" in line]
    for crew in (classic, consumer):
        commits = [value for kind, value in _dumped(output, crew.group) if kind == OFFSET_COMMIT]
        assert [_metadata(each["data"]) for each in commits].count("second") == len(crew.partitions)
    assert CLASSIC_GROUP in {kind for kind, _ in _dumped(output, classic.group)}
    assert {kind for kind, _ in _dumped(output, consumer.group)} >= set(CONSUMER_GROUP_TYPES)


def _metadata(commit: dict[str, Any]) -> str:
    """The text beside an offset; confluent-kafka sends the zero byte at its end along."""
    return str(commit["metadata"]).removesuffix("\0")


def _documents(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in the output; the formatters put no line ends between them."""
    decoder = json.JSONDecoder()
    position = output.find("{")
    while position >= 0:
        document, end = decoder.raw_decode(output, position)
        yield document
        position = output.find("{", end)


def _dumped(output: str, group: str) -> list[tuple[int, Any]]:
    """The type of the key, and the value, of every record of a group; None for a tombstone."""
    records = re.findall(r" key: (\{.*?\}\}) payload: (.*)$", output, re.MULTILINE)
    parsed = [(json.loads(key), value) for key, value in records]
    return [
        (int(key["type"]), json.loads(value) if value.startswith("{") else None)
        for key, value in parsed
        if key["data"].get("group", key["data"].get("groupId")) == group
    ]
