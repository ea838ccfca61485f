"""Kafka's kafka-consumer-groups tool lists, describes, resets and deletes groups."""

import re
import time
from datetime import UTC, datetime

import pytest

from tests.compat.conftest import CrewFactory
from tests.compat.group_crew import Crew, PythonClient, Variant
from tests.compat.java import kafka_tools
from tests.compat.java.kafka_tools import run_tool
from tests.support.eventually import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
]

CLIENT = PythonClient("tests.compat.confluent.member")
VARIANTS = [Variant(name="classic"), Variant(name="consumer", protocol="consumer")]
RECORDS = 10
BOTH = pytest.mark.parametrize("crew", VARIANTS, ids=lambda variant: variant.name, indirect=True)


@pytest.fixture
def crew(request: pytest.FixtureRequest, new_crew: CrewFactory) -> Crew:
    """Ten records in each partition."""
    crew = new_crew(CLIENT, getattr(request, "param", VARIANTS[0]))
    crew.feed(RECORDS)
    return crew


def tool(crew: Crew, *arguments: str) -> str:
    return run_tool(kafka_tools.CONSUMER_GROUPS, "--bootstrap-server", crew.bootstrap, *arguments)


def rows(output: str) -> list[dict[str, str]]:
    """The lines of a table by the names of its columns; the tool separates columns by blanks."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    head = next(index for index, line in enumerate(lines) if line[0] == "GROUP")
    return [dict(zip(lines[head], line, strict=False)) for line in lines[head + 1 :]]


def commit_and_leave(crew: Crew, offset: int) -> None:
    member = crew.start()
    crew.settle(member)
    member.commit(dict.fromkeys(crew.partitions, offset))
    member.leave()
    crew.wait_until_empty()


@BOTH
def test_groups_are_listed_by_state_and_type(crew: Crew) -> None:
    crew.settle(crew.start())
    eventually(lambda: crew.description().state.name == "STABLE", "the group is stable")
    assert crew.group in tool(crew, "--list").split()
    listed = {each["GROUP"]: each for each in rows(tool(crew, "--list", "--state"))}
    assert listed[crew.group]["STATE"] == "Stable"
    assert crew.group in tool(crew, "--list", "--state", "stable")
    assert crew.group not in tool(crew, "--list", "--state", "empty")
    other = "consumer" if crew.variant.protocol == "classic" else "classic"
    assert crew.group in tool(crew, "--list", "--type", crew.variant.protocol)
    assert crew.group not in tool(crew, "--list", "--type", other)


@BOTH
def test_offsets_members_and_state_are_described(crew: Crew) -> None:
    member = crew.start(instance_id="desk")
    crew.settle(member)
    member.commit(dict.fromkeys(crew.partitions, 4))
    eventually(lambda: crew.description().state.name == "STABLE", "the group is stable")
    described = rows(tool(crew, "--describe", "--group", crew.group))
    assert {
        (each["PARTITION"], each["CURRENT-OFFSET"], each["LOG-END-OFFSET"], each["LAG"]) for each in described
    } == {(str(number), "4", str(RECORDS), str(RECORDS - 4)) for number in range(len(crew.partitions))}
    assert {each["HOST"] for each in described} == {"/127.0.0.1"}
    assert rows(tool(crew, "--describe", "--group", crew.group, "--offsets", "--verbose"))
    (told,) = rows(tool(crew, "--describe", "--group", crew.group, "--members"))
    assert (told["GROUP-INSTANCE-ID"], told["#PARTITIONS"]) == ("desk", str(len(crew.partitions)))
    assert f"{crew.topic}:0,1,2,3" in tool(crew, "--describe", "--group", crew.group, "--members", "--verbose")
    state = tool(crew, "--describe", "--group", crew.group, "--state")
    assert re.search(rf"{crew.group}\s+\S+\s+\(\d+\)\s+\S+\s+Stable\s+1", state), state


def test_a_group_without_members_is_described_and_a_missing_one_is_reported(crew: Crew) -> None:
    commit_and_leave(crew, 3)
    output = tool(crew, "--describe", "--group", crew.group)
    assert "has no active members" in output
    assert {each["CURRENT-OFFSET"] for each in rows(output)} == {"3"}
    missing = kafka_tools.run_tool_anyhow(
        kafka_tools.CONSUMER_GROUPS, "--bootstrap-server", crew.bootstrap, "--describe", "--group", "not-there"
    )
    assert "not-there" in missing
    assert "does not exist" in missing or "not found" in missing


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), RECORDS),
        (("--to-current",), 3),
        (("--to-offset", "7"), 7),
        (("--to-offset", "70"), RECORDS),
        (("--shift-by", "2"), 5),
        (("--shift-by", "-20"), 0),
        (("--by-duration", "PT1H"), 0),
        (("--by-duration", "PT0S"), RECORDS),
        (("--to-datetime", "2001-01-01T00:00:00.000"), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_offsets_are_reset(crew: Crew, option: tuple[str, ...], expected: int) -> None:
    commit_and_leave(crew, 3)
    reset = ("--reset-offsets", "--group", crew.group, "--topic", f"{crew.topic}:0,1", *option)
    planned = rows(tool(crew, *reset, "--dry-run"))
    assert {(each["PARTITION"], each["NEW-OFFSET"]) for each in planned} == {
        ("0", str(expected)),
        ("1", str(expected)),
    }
    assert set(crew.committed_offsets().values()) == {3}
    tool(crew, *reset, "--execute")
    assert crew.committed_offsets() == {each: expected if each[1] < 2 else 3 for each in crew.partitions}


def test_offsets_are_reset_to_a_time(crew: Crew) -> None:
    commit_and_leave(crew, 3)
    later_than_all = time.time() + 1
    eventually(lambda: time.time() > later_than_all, "a moment has passed")
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    eventually(lambda: time.time() > later_than_all + 0.1, "another moment has passed")
    crew.feed(RECORDS)
    tool(crew, "--reset-offsets", "--group", crew.group, "--all-topics", "--to-datetime", moment, "--execute")
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, RECORDS)


@BOTH
def test_a_group_with_members_is_neither_reset_nor_deleted(crew: Crew) -> None:
    member = crew.start()
    crew.settle(member)
    member.commit(dict.fromkeys(crew.partitions, 3))
    eventually(lambda: crew.description().state.name == "STABLE", "the group is stable")
    everything = ("--bootstrap-server", crew.bootstrap, "--group", crew.group)
    reset = kafka_tools.run_tool_anyhow(
        kafka_tools.CONSUMER_GROUPS, *everything, "--reset-offsets", "--all-topics", "--to-earliest", "--execute"
    )
    assert "inactive" in reset, reset
    deleted = kafka_tools.run_tool_anyhow(kafka_tools.CONSUMER_GROUPS, *everything, "--delete")
    assert "not empty" in deleted, deleted
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, 3)


@BOTH
def test_groups_and_single_offsets_are_deleted(crew: Crew) -> None:
    commit_and_leave(crew, 3)
    output = tool(crew, "--delete-offsets", "--group", crew.group, "--topic", f"{crew.topic}:0,2")
    assert "successful" in output.lower(), output
    assert {number for _, number in crew.committed()} == {1, 3}
    output = tool(crew, "--delete", "--group", crew.group)
    assert f"Deletion of requested consumer groups ('{crew.group}') was successful." in output
    assert crew.group not in tool(crew, "--list").split()


@BOTH
def test_single_offsets_are_kept_while_a_member_subscribes_to_their_topic(crew: Crew) -> None:
    member = crew.start()
    crew.settle(member)
    member.commit(dict.fromkeys(crew.partitions, 3))
    output = kafka_tools.run_tool_anyhow(
        kafka_tools.CONSUMER_GROUPS,
        *("--bootstrap-server", crew.bootstrap, "--delete-offsets", "--group", crew.group, "--topic", crew.topic),
    )
    assert "subscribed" in output.lower(), output
    assert crew.committed_offsets() == dict.fromkeys(crew.partitions, 3)
