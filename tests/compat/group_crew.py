"""Members of one consumer group as child processes, for the checks in `group_cases.py`.

A `GroupClient` tells how a client's member is started and how its output is read; what members own is what they say
themselves. `Crew` is the members of one group, the topic they read, and an observer that is in no group. Every
process is ended with the crew, by its own id, or by the kernel when the tests die.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError

from ottla.local import tied_exec
from tests.compat.group_member_program import MemberSpec, Partition
from tests.support.clusters.broker_under_test import make_topic
from tests.support.eventually import NotInTime, eventually

PARTITIONS = 4
SESSION_TIMEOUT_S = 6.0
# A member that is missed is noticed after its session timeout; the rest is for a machine with better things to do.
SETTLE_DEADLINE_S = 60.0
STOP_DEADLINE_S = 30.0
FLUSH_DEADLINE_S = 30.0
ADMIN_DEADLINE_S = 30.0

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A way in which all members of a group join.

    Attributes:
        assignor: None for the client's or the coordinator's default.
    """

    name: str
    protocol: str = "classic"
    assignor: str | None = None


class GroupClient(Protocol):
    """How members are started with one client.

    Attributes:
        obeys: whether its members carry out commands; those that do not are told to leave by SIGTERM.
        exit_code: what its members end with when they have left.
    """

    obeys: bool
    exit_code: int

    def command(self, spec: MemberSpec) -> list[str]:
        """The program and its arguments."""

    def event(self, line: str) -> Event | None:
        """What a line of its output reports, in the form of `group_member_program.Report`."""


class PythonClient:
    """A client whose members run under `group_member_program.run_member`.

    Args:
        module: of the client's `member.py`.
    """

    obeys = True
    exit_code = 0

    def __init__(self, module: str):
        self._module = module

    def command(self, spec: MemberSpec) -> list[str]:
        return [sys.executable, "-m", self._module, spec.to_json()]

    def event(self, line: str) -> Event | None:
        event: Event = json.loads(line)
        return event


class GroupMember:
    """One member's process, and what it has reported so far.

    Attributes:
        name: for messages.
        events: everything reported, in order.
    """

    def __init__(self, name: str, client: GroupClient, spec: MemberSpec, log: Path):
        self.name = name
        self.spec = spec
        self.events: list[Event] = []
        self._client = client
        self._lock = threading.Lock()
        self._owned: set[Partition] = set()
        program, *arguments = client.command(spec)
        tie = [sys.executable, "-I", "-S", tied_exec.__file__, str(os.getpid())]
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [*tie, shutil.which(program) or program, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors if client.obeys else subprocess.STDOUT,
                text=True,
                bufsize=1,
            )
        self._reader = threading.Thread(target=self._read, name=f"reader of {name}", daemon=True)
        self._reader.start()

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions it has been given and that were not taken away."""
        with self._lock:
            return frozenset(self._owned)

    @property
    def records(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of every record it has read."""
        return [(each["topic"], each["partition"], each["offset"]) for each in self.of_kind("record")]

    def of_kind(self, *kinds: str) -> list[Event]:
        with self._lock:
            return [event for event in self.events if event["event"] in kinds]

    def changes(self) -> int:
        """How often its assignment was announced to have changed."""
        return len(self.of_kind("assigned", "revoked", "lost"))

    def commit(self, offsets: Mapping[Partition, int], *, metadata: str = "", is_async: bool = False) -> None:
        """Has it commit, and waits for the answer."""
        before = len(self.of_kind("committed"))
        listed = [(*partition, offset) for partition, offset in offsets.items()]
        self._tell(do="commit", offsets=listed, metadata=metadata, is_async=is_async)
        self.eventually(lambda: len(self.of_kind("committed")) > before, "its commit is answered")
        assert self.of_kind("committed")[before]["error"] is None, self.of_kind("committed")[before]

    def seek(self, partition: Partition, offset: int) -> None:
        self._tell(do="seek", topic=partition[0], partition=partition[1], offset=offset)

    def pause(self, partitions: Sequence[Partition]) -> None:
        self._tell(do="pause", partitions=list(partitions))

    def resume(self, partitions: Sequence[Partition]) -> None:
        self._tell(do="resume", partitions=list(partitions))

    def leave(self) -> None:
        """Has it leave its group and waits until its process has ended."""
        if self._client.obeys:
            self._tell(do="leave")
        else:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(STOP_DEADLINE_S)
        self._reader.join(STOP_DEADLINE_S)
        assert self._process.returncode == self._client.exit_code, (
            f"{self.name} left with {self._process.returncode}: {self.tail()}"
        )

    def freeze(self) -> None:
        """SIGSTOP: it is silent from now on, and does not know."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, which nobody is told of."""
        self._process.kill()
        self._process.wait(STOP_DEADLINE_S)
        self._reader.join(STOP_DEADLINE_S)

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        """Waits for something, unless this member gives up."""
        eventually(lambda: condition() or self.failure(), f"{what} ({self.name})", within_s=SETTLE_DEADLINE_S)
        assert self.failure() is None, f"{self.name}: {self.failure()} {self.tail()}"

    def failure(self) -> str | None:
        """What it gave up with, if it did."""
        failures = self.of_kind("failed")
        return failures[0]["error"] if failures else None

    def tail(self) -> str:
        """Its last reports and the end of its log, for messages."""
        with self._lock:
            last = self.events[-5:]
        return f"{last}\n{self._log.read_text(errors='replace')[-2000:]}"

    def end(self) -> None:
        """Makes sure that nothing is left of it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = self._client.event(line.rstrip("\n"))
            if event is not None:
                self._take(event)

    def _take(self, event: Event) -> None:
        partitions = {(topic, partition) for topic, partition in event.get("partitions", ())}
        with self._lock:
            self.events.append(event)
            if event["event"] == "assigned":
                self._owned |= partitions
            elif event["event"] in ("revoked", "lost"):
                self._owned -= partitions
            elif event["event"] in ("left", "failed"):
                self._owned.clear()


class Crew:
    """The members of one group.

    Attributes:
        topic: with `PARTITIONS` partitions; what all members read unless told otherwise.
        client: what members are made of.
    """

    def __init__(self, client: GroupClient, variant: Variant, bootstrap: str, directory: Path):
        self.client = client
        self.variant = variant
        self.bootstrap = bootstrap
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.topic = make_topic(bootstrap, prefix=self.group, partitions=PARTITIONS)
        self.partitions = frozenset((self.topic, number) for number in range(PARTITIONS))
        self._directory = directory
        self._members: list[GroupMember] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def start(
        self, *, variant: Variant | None = None, client: GroupClient | None = None, **fields: Any
    ) -> GroupMember:
        """Starts one more member; `fields` are those of `MemberSpec`."""
        variant = variant or self.variant
        topics = () if "pattern" in fields else (self.topic,)
        spec = MemberSpec(
            **{
                "bootstrap": self.bootstrap,
                "group": self.group,
                "topics": topics,
                "protocol": variant.protocol,
                "assignor": variant.assignor,
                "session_timeout_ms": int(SESSION_TIMEOUT_S * 1000),
                **fields,
            }
        )
        name = f"member-{len(self._members)}"
        member = GroupMember(name, client or self.client, spec, self._directory / f"{name}.log")
        self._members.append(member)
        return member

    def feed(self, per_partition: int, *, topic: str | None = None, partitions: int = PARTITIONS) -> None:
        """Publishes so many records to every partition."""
        for _ in range(per_partition):
            for partition in range(partitions):
                self._producer.produce(topic or self.topic, value=b"record", partition=partition)
        assert self._producer.flush(FLUSH_DEADLINE_S) == 0, "not every record was acknowledged"

    def settle(self, *members: GroupMember, all_of: frozenset[Partition] | None = None) -> None:
        """Waits until these members own all partitions, each by one of them, and each owns some."""
        wanted = self.partitions if all_of is None else all_of

        def is_settled() -> bool:
            for member in members:
                assert member.failure() is None, f"{member.name}: {member.failure()} {member.tail()}"
            owned = [member.owned for member in members]
            return all(owned) and sum(map(len, owned)) == len(wanted) and frozenset().union(*owned) == wanted

        names = ", ".join(member.name for member in members)
        try:
            eventually(is_settled, f"{names} share the partitions", within_s=SETTLE_DEADLINE_S)
        except NotInTime as late:
            tails = "\n".join(f"{member.name} owns {sorted(member.owned)}: {member.tail()}" for member in members)
            raise NotInTime(f"{late}\n{tails}") from None

    def settle_but_one(self, *members: GroupMember) -> GroupMember:
        """Waits until all of these members but one own a partition each, and returns the one that owns none.

        Which one that is, the assignor decides, by the ids of members for example, which are random.
        """

        def idle() -> GroupMember | None:
            group = self.description()
            if group.state is not ConsumerGroupState.STABLE or len(group.members) != len(members):
                return None
            owned = [each for member in members for each in member.owned]
            without = [member for member in members if not member.owned]
            return without[0] if len(without) == 1 and sorted(owned) == sorted(self.partitions) else None

        return eventually(
            idle, f"all of {len(members)} members but one share the partitions", within_s=SETTLE_DEADLINE_S
        )

    def wait_until_read(self, member: GroupMember, wanted: set[tuple[str, int, int]]) -> None:
        """Waits until a member has read these records, in any order."""
        member.eventually(lambda: wanted <= set(member.records), f"it has read {len(wanted)} records")

    def records(self, first: int, end: int) -> set[tuple[str, int, int]]:
        """The records of every partition from one offset to before another."""
        return {(self.topic, number, offset) for number in range(PARTITIONS) for offset in range(first, end)}

    def committed(self) -> dict[Partition, tuple[int, str]]:
        """Offset and metadata of every partition that the group has committed.

        kafka-python reads them, because confluent-kafka reads beyond the end of other clients' metadata. To its own
        it adds a zero byte.
        """
        reader = KafkaAdminClient(bootstrap_servers=self.bootstrap)

        def told() -> tuple[dict[Partition, tuple[int, str]]] | None:
            try:
                found = reader.list_group_offsets({self.group: None})[self.group]
            except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError):
                return None  # this client leaves it to the application to ask again
            return (
                {
                    (each.topic, each.partition): (at.offset, at.metadata.removesuffix("\0"))
                    for each, at in found.items()
                },
            )

        try:
            (committed,) = eventually(told, "the group has a coordinator", within_s=ADMIN_DEADLINE_S)
        finally:
            reader.close()
        return committed

    def committed_offsets(self) -> dict[Partition, int]:
        """Offset of every partition that the group has committed.

        While a coordinator loads the group, librdkafka leaves it to the application to ask again.
        """
        (offsets,) = eventually(self._told_offsets, "the group is loaded", within_s=ADMIN_DEADLINE_S)
        return offsets

    def _told_offsets(self) -> tuple[dict[Partition, int]] | None:
        futures = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.group)], request_timeout=ADMIN_DEADLINE_S
        )
        try:
            found = futures[self.group].result().topic_partitions
        except KafkaException as error:
            if error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                return None
            raise
        return ({(each.topic, each.partition): each.offset for each in found},)

    def description(self) -> Any:
        """What the coordinator tells of the group, as confluent-kafka has it."""
        return self._admin.describe_consumer_groups([self.group], request_timeout=ADMIN_DEADLINE_S)[
            self.group
        ].result()

    def wait_until_empty(self) -> None:
        """Waits until the coordinator misses every member."""
        eventually(lambda: not self.description().members, "the group is empty", within_s=SETTLE_DEADLINE_S)

    def delete_topic(self) -> None:
        self._admin.delete_topics([self.topic])[self.topic].result(ADMIN_DEADLINE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self._members:
            member.end()
