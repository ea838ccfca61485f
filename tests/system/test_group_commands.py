"""`ottla group` and `ottla consume --group` against the broker under test."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.child_process import ChildProcess
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.clusters.ottla_command import Ottla
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

PROTOCOLS = ["classic", "consumer"]
SESSION_TIMEOUT_S = 6
ANSWER_DEADLINE_S = 30
OLD_MS = 1_000_000_000_000

Reader = Callable[..., AbstractContextManager[ChildProcess]]


@pytest.fixture(scope="module")
def ottla(bootstrap: str) -> Ottla:
    return Ottla(bootstrap)


@pytest.fixture
def topic(ottla: Ottla) -> Iterator[str]:
    with own_topic(ottla) as name:
        yield name


@pytest.fixture(scope="module")
def ten_seconds(ottla: Ottla) -> Iterator[str]:
    """A topic with ten records in its first partition, a second apart in 2001."""
    lines = b"".join(
        b'{"value": "%d", "partition": 0, "timestamp": %d}\n' % (n, OLD_MS + 10_000 + 1000 * n) for n in range(10)
    )
    with own_topic(ottla) as name:
        ottla.run("produce", name, "--format", "record", stdin=lines)
        yield name


@contextmanager
def own_topic(ottla: Ottla) -> Iterator[str]:
    """A topic that is deleted in the end."""
    name = f"grouped-{uuid.uuid4().hex[:8]}"
    ottla.run("topic", "create", name, "--partitions", "3", "--config", "retention.ms=-1")
    yield name
    ottla.run("topic", "delete", name)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def reader(ottla: Ottla, tmp_path: Path) -> Reader:
    """A function that starts `ottla consume … --follow` and ends it with Ctrl-C."""

    @contextmanager
    def start(*arguments: str) -> Iterator[ChildProcess]:
        process = ChildProcess(
            "ottla consume",
            [ottla_command(), "consume", *arguments, "--follow"],
            log=tmp_path / f"{uuid.uuid4().hex}.log",
            env=ottla.environment,
        )
        process.start()
        try:
            yield process
        finally:
            interrupt(process)

    return start


def interrupt(process: ChildProcess) -> None:
    if process.is_running():
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(within_s=30) == 0, process.log_tail()


def publish(ottla: Ottla, topic: str, count: int, *, first: int = 0) -> None:
    """Numbers from `first` on, three to a partition in turn, a second apart from 2001 on."""
    lines = [
        json.dumps({"value": str(number), "partition": number % 3, "timestamp": OLD_MS + 1000 * number})
        for number in range(first, first + count)
    ]
    ottla.run("produce", topic, "--format", "record", stdin="\n".join(lines).encode())


def read(ottla: Ottla, topic: str, group: str, *arguments: str) -> list[int]:
    return sorted(int(line) for line in ottla.run("consume", topic, "--group", group, *arguments).stdout.split())


def written(process: ChildProcess) -> set[int]:
    return {int(line) for line in process.log.read_text().split()}


def offsets(ottla: Ottla, group: str) -> dict[int, tuple[int | None, int | None]]:
    """Committed offset and lag by partition."""
    (described,) = ottla.json("group", "describe", group)
    return {each["partition"]: (each["committed_offset"], each["lag"]) for each in described["partitions"]}


def members(ottla: Ottla, group: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [ottla_command(), "group", "members", group, "--json"],
        capture_output=True, check=False, env={**os.environ, **ottla.environment},
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(done.stdout)[0]["members"] if done.returncode == 0 else []
    return found


def has_members(ottla: Ottla, group: str, count: int) -> bool:
    """Whether the group has so many: asked again and again, this costs less than a command each time."""
    described = _admin(ottla.environment["OTTLA_BOOTSTRAP"]).describe_consumer_groups([group])[group]
    try:
        return len(described.result(ANSWER_DEADLINE_S).members) == count
    except KafkaException as exception:
        raise ConnectionError(f"{group}: {exception}") from exception


@cache
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def wait_for_members(ottla: Ottla, group: str, count: int) -> list[dict[str, Any]]:
    """Waits until the group has so many members, of which each owns some of the three partitions."""

    def settled() -> list[dict[str, Any]]:
        if not has_members(ottla, group, count):
            return []
        found = members(ottla, group)
        owned = sorted(each["partition"] for member in found for each in member["assignment"])
        is_shared = owned == [0, 1, 2] and all(each["assignment"] for each in found)
        return found if len(found) == count and is_shared else []

    return eventually(settled, f"{group} has {count} members that share the partitions")


def wait_until_empty(ottla: Ottla, group: str, *, within_s: float = 30.0) -> None:
    """Waits until the group has no member any more."""
    eventually(
        lambda: has_members(ottla, group, 0) and members(ottla, group) == [],
        f"{group} has no members",
        within_s=within_s,
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_where_it_stopped(ottla, topic, group, protocol):
    publish(ottla, topic, 30)
    assert read(ottla, topic, group, "--group-protocol", protocol) == list(range(30))
    assert offsets(ottla, group) == {0: (10, 0), 1: (10, 0), 2: (10, 0)}
    publish(ottla, topic, 6, first=30)
    assert offsets(ottla, group) == {0: (10, 2), 1: (10, 2), 2: (10, 2)}
    assert read(ottla, topic, group, "--group-protocol", protocol) == list(range(30, 36))
    assert read(ottla, topic, group, "--group-protocol", protocol) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_exactly_what_was_printed_is_committed(ottla, topic, group, protocol):
    publish(ottla, topic, 30)
    some = read(ottla, topic, group, "--group-protocol", protocol, "--count", "7")
    assert len(some) == 7
    assert sum(committed or 0 for committed, _ in offsets(ottla, group).values()) == 7
    rest = read(ottla, topic, group, "--group-protocol", protocol)
    assert sorted(some + rest) == list(range(30))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_the_partitions_and_leave_with_ctrl_c(ottla, topic, group, reader, protocol):
    arguments = (topic, "--group", group, "--group-protocol", protocol, "--commit-interval", "0.2")
    with reader(*arguments) as one, reader(*arguments) as other:
        found = wait_for_members(ottla, group, 2)
        assert {each["client_id"] for each in found} == {"ottla"}
        publish(ottla, topic, 30)
        eventually(lambda: written(one) | written(other) == set(range(30)), "everything was read")
        eventually(lambda: set(offsets(ottla, group).values()) == {(10, 0)}, "everything was committed")
        (listed,) = [each for each in ottla.json("group", "list", "--type", protocol) if each["group"] == group]
        assert listed["state"] == "stable"
        interrupt(one)
        wait_for_members(ottla, group, 1)
    wait_until_empty(ottla, group)
    assert group in [each["group"] for each in ottla.json("group", "list", "--state", "empty")]
    assert group not in [each["group"] for each in ottla.json("group", "list", "--state", "stable")]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_stays_in_its_group_while_it_is_restarted(ottla, topic, group, reader, protocol):
    arguments = (topic, "--group", group, "--group-protocol", protocol, "--instance-id", "desk")
    with reader(*arguments, "-X", "session.timeout.ms=6000") if protocol == "classic" else reader(*arguments):
        (member,) = wait_for_members(ottla, group, 1)
        assert member["instance_id"] == "desk"
    (member,) = members(ottla, group)
    assert member["instance_id"] == "desk"
    wait_until_empty(ottla, group, within_s=5 * SESSION_TIMEOUT_S)


def test_several_topics_and_patterns_are_read_in_a_group(ottla, topic, group):
    other = f"{topic}-other"
    ottla.run("topic", "create", other)
    ottla.run("produce", other, stdin=b"100\n")
    publish(ottla, topic, 3)
    assert sorted(int(line) for line in ottla.run("consume", topic, other, "-g", group).stdout.split()) == [
        0,
        1,
        2,
        100,
    ]
    pattern = f"^{topic}.*"
    read_all = ottla.run("consume", pattern, "-g", f"{group}-by-pattern").stdout.split()
    assert sorted(int(line) for line in read_all) == [0, 1, 2, 100]
    ottla.run("topic", "delete", other)


def test_a_topic_that_is_not_there_is_reported_before_the_group_is_joined(ottla, group):
    assert b"there is no topic nowhere" in ottla.run("consume", "nowhere", "-g", group, fails_with=1).stderr
    assert b"there is no group" in ottla.run("group", "describe", group, fails_with=1).stderr


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 10),
        (("--to-current",), 10),
        (("--to-offset", "4"), 4),
        (("--to-offset", "99"), 10),
        (("--shift-by", "-3"), 7),
        (("--shift-by", "-300"), 0),
        (("--to-datetime", "2001-09-09T01:46:55"), 5),
        (("--to-datetime", "2001-09-09T03:46:55+02:00"), 5),
        (("--to-datetime", "2033-01-01"), 10),
        (("--by-duration", "1h"), 10),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_reset_is_planned_and_then_done(ottla, ten_seconds, group, option, expected):
    read(ottla, ten_seconds, group)
    arguments = ("group", "reset-offsets", group, "--topic", f"{ten_seconds}:0", *option)
    planned = ottla.json(*arguments)
    assert [each["new_offset"] for each in planned["partitions"]] == [expected]
    assert not planned["executed"]
    assert offsets(ottla, group)[0] == (10, 0)
    done = ottla.json(*arguments, "--execute")
    assert done == {**planned, "executed": True}
    assert offsets(ottla, group)[0] == (expected, 10 - expected)
    assert read(ottla, ten_seconds, group) == list(range(expected, 10))


def test_by_duration_counts_back_from_now(ottla, topic, group):
    now_ms = int(time.time() * 1000)
    lines = b"".join(
        b'{"value": "%d", "partition": 0, "timestamp": %d}\n' % (n, now_ms - (9 - n) * 3_600_000) for n in range(10)
    )
    ottla.run("produce", topic, "--format", "record", stdin=lines)
    read(ottla, topic, group)
    for duration in ("PT2H30M", "2h30m"):
        planned = ottla.json("group", "reset-offsets", group, "-t", f"{topic}:0", "--by-duration", duration)
        assert planned["partitions"][0]["new_offset"] == 7


def test_only_the_chosen_partitions_are_reset(ottla, topic, group):
    publish(ottla, topic, 30)
    read(ottla, topic, group)
    ottla.run("group", "reset-offsets", group, "--topic", f"{topic}:0,2", "--to-offset", "3", "--execute")
    assert offsets(ottla, group) == {0: (3, 7), 1: (10, 0), 2: (3, 7)}
    ottla.run("group", "reset-offsets", group, "--all-topics", "--to-earliest", "--execute")
    assert offsets(ottla, group) == {0: (0, 10), 1: (0, 10), 2: (0, 10)}


def test_a_group_is_given_offsets_before_its_first_member_comes(ottla, topic, group):
    publish(ottla, topic, 30)
    arguments = ("group", "reset-offsets", group, "--topic", topic, "--to-offset", "8", "--execute")
    assert b"--create" in ottla.run(*arguments, fails_with=1).stderr
    ottla.run(*arguments, "--create")
    assert read(ottla, topic, group) == list(range(24, 30))


def test_what_cannot_be_reset_is_refused_in_one_line(ottla, topic, group, reader):
    to_earliest = ("group", "reset-offsets", group, "--to-earliest")
    assert ottla.run(*to_earliest, "--all-topics", fails_with=1).stderr.count(b"\n") == 1
    with reader(topic, "--group", group):
        wait_for_members(ottla, group, 1)
        refused = ottla.run(*to_earliest, "--all-topics", fails_with=1)
        assert b"has committed no offsets; name its topics with --topic" in refused.stderr
        refused = ottla.run(*to_earliest, "--topic", topic, "--execute", fails_with=1)
        assert refused.stderr == f"ottla: group {group} has members; stop them first\n".encode()
        planned = ottla.run(*to_earliest, "--topic", topic)
        assert b"has members" in planned.stderr
    refused = ottla.run(*to_earliest, "--topic", f"{topic}:7", fails_with=1)
    assert refused.stderr == f"ottla: topic {topic} has no partition 7; its partitions are 0 to 2\n".encode()
    refused = ottla.run("group", "reset-offsets", group, "--topic", topic, "--shift-by", "1", fails_with=1)
    assert b"no committed offset to shift" in refused.stderr


def test_groups_are_deleted_once_they_have_no_members(ottla, topic, group, reader):
    publish(ottla, topic, 3)
    with reader(topic, "--group", group):
        wait_for_members(ottla, group, 1)
        refused = ottla.run("group", "delete", group, fails_with=1)
        assert refused.stderr == f"ottla: {group} was not deleted: it has members; stop them first\n".encode()
    wait_until_empty(ottla, group)
    results = {each["group"]: each for each in ottla.json("group", "delete", group, "no-such-group", fails_with=1)}
    assert results[group] == {"group": group, "error": None, "status": "deleted"}
    assert results["no-such-group"]["error"] == "there is no such group"
    assert b"there is no group" in ottla.run("group", "describe", group, fails_with=1).stderr
    assert group not in [each["group"] for each in ottla.json("group", "list")]


def test_tables_show_what_the_documents_hold(ottla, topic, group):
    publish(ottla, topic, 30)
    read(ottla, topic, group)
    publish(ottla, topic, 25, first=30)
    described = ottla.run("group", "describe", group).stdout.decode()
    assert f"{group}: empty, classic, 25 behind" in described
    assert group in ottla.run("group", "list").stdout.decode()
    assert f"{group}: empty" in ottla.run("group", "members", group).stdout.decode()
    planned = ottla.run("group", "reset-offsets", group, "--topic", topic, "--to-latest")
    assert f"{group}: would be reset" in planned.stdout.decode()
    assert b"nothing was changed" in planned.stderr
