"""Many consumers in many groups under a steady load, each noting in a `GroupHistory` what it owns and has committed.

All groups read one topic, so that few records keep all of them busy. Groups take turns in their protocol: classic and
eager, classic and cooperative, and the consumer protocol. Every member is a thread with a librdkafka consumer; it
commits what it has read once a second, one commit at a time, because librdkafka may send a commit again after a later
one when its coordinator moves. A watcher asks every broker for all
committed offsets again and again.

Threads of one process are enough: what is to die is the coordinator, and a member notes times within its callbacks,
before it answers to them.
"""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8 import request as offset_fetch
from kio.schema.types import GroupId

from tests.support.clients.raw_client import RawClient, Silence
from tests.support.eventually import eventually
from tests.support.groups.group_history import NOTHING_COMMITTED, GroupHistory, Place, stable_again_s

SESSION_TIMEOUT_S = 6.0
HEARTBEAT_INTERVAL_MS = 1000
COMMIT_INTERVAL_S = 1.0
PRODUCE_INTERVAL_S = 0.5
WATCH_INTERVAL_S = 0.25
LOOK_INTERVAL_S = 0.5
POLL_S = 0.25
BATCH_RECORDS_MAX = 200
GROUP_PREFIX = "load-"
START_DEADLINE_S = 120.0
STOP_DEADLINE_S = 60.0
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"partition.assignment.strategy": "range"},
    {"partition.assignment.strategy": "cooperative-sticky"},
    {"group.protocol": "consumer"},
)

Note = Callable[[str], None]


class LoadMember(threading.Thread):
    """One consumer.

    Attributes:
        member: its name in the history.
        problem: what ended it, if something did.
        errors: how often each error was told.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        member: str,
        kind: int,
        history: GroupHistory,
        settings: Mapping[str, Any],
    ):
        super().__init__(name=member, daemon=True)
        self.member = member
        self._group = group
        self._topic = topic
        self._history = history
        self._ending = threading.Event()
        self._positions: dict[int, int] = {}
        self._asked_s: float | None = None
        self._commit_due_s = 0.0
        self.problem: str | None = None
        self.errors: Counter[str] = Counter()
        self._settings = {**_member_settings(bootstrap, group, member, kind), **settings}

    def end(self) -> None:
        """Asks it to leave; `join` waits for it."""
        self._ending.set()

    def run(self) -> None:
        consumer = Consumer(self._settings, on_commit=self._on_commit)
        try:
            consumer.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_taken, on_lost=self._on_taken
            )
            while not self._ending.is_set():
                self._read(consumer)
                self._commit(consumer)
        except Exception as error:
            self.problem = f"{self.member}: {error!r}"
            raise
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        for message in consumer.consume(BATCH_RECORDS_MAX, POLL_S):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                self.errors[error.name()] += 1
                if error.fatal():
                    raise RuntimeError(str(error))
                continue
            if partition in self._positions and offset is not None:
                self._positions[partition] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        now_s = time.monotonic()
        known = {partition: offset for partition, offset in self._positions.items() if offset != NOTHING_COMMITTED}
        if self._asked_s is not None or now_s < self._commit_due_s or not known:
            return
        self._commit_due_s = now_s + COMMIT_INTERVAL_S
        self._asked_s = now_s
        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in known.items()]
        consumer.commit(offsets=wanted, asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        asked_s, self._asked_s = self._asked_s, None
        for each in filter(None, [error, *(each.error for each in partitions)]):
            self.errors[each.name()] += 1
        if error is None and asked_s is not None:
            granted = {each.partition: each.offset for each in partitions if each.error is None}
            self._history.committed(self._group, self.member, granted, asked_s=asked_s, granted_s=time.monotonic())

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # A position is known once a record has been read; until then there is nothing that could be committed.
        self._positions.update({each.partition: NOTHING_COMMITTED for each in partitions})
        self._history.assigned(self._group, self.member, _numbers(partitions), time.monotonic())

    def _on_taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._history.taken(self._group, self.member, _numbers(partitions), time.monotonic())
        for each in partitions:
            self._positions.pop(each.partition, None)


class GroupLoad:
    """The groups, their members, the producer and the watcher; leaving it ends them all.

    Attributes:
        history: what they noted.
        groups: the names of the groups.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        groups: int,
        members_per_group: int,
        settings: Mapping[str, Any] = MappingProxyType({}),
        connect: Callable[[str], RawClient] = RawClient.to,
    ):
        """See the class.

        Args:
            bootstrap: where the cluster is.
            topic: which exists.
            partitions: how many it has.
            groups: how many groups read it.
            members_per_group: how many members each has.
            settings: more of librdkafka's settings of all clients.
            connect: makes the watcher's connections to addresses.
        """
        self._settings = settings
        self._connect = connect
        self.history = GroupHistory()
        self.groups = [f"{GROUP_PREFIX}{number}" for number in range(groups)]
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._ending = threading.Event()
        self._members = [
            LoadMember(bootstrap, topic, group, f"{group}-member-{number}", kind, self.history, settings)
            for kind, group in enumerate(self.groups)
            for number in range(members_per_group)
        ]
        self._producing = threading.Thread(target=self._produce, name="producer", daemon=True)
        self._watching = threading.Thread(target=self._watch, name="watcher", daemon=True)

    @property
    def errors(self) -> Counter[str]:
        """How often members were told each error."""
        return sum((member.errors for member in self._members), Counter())

    def places(self, group: str) -> list[Place]:
        """The partitions of a group."""
        return [Place(group, partition) for partition in range(self._partitions)]

    def wait_until_stable(self, since_s: float, *, within_s: float = START_DEADLINE_S) -> None:
        """Waits until every group has been stable again since some moment."""
        eventually(
            lambda: not self._ending.wait(LOOK_INTERVAL_S) and not self.unstable(since_s),
            "every group is stable",
            within_s=within_s,
        )

    def unstable(self, since_s: float) -> list[str]:
        """The groups that have not yet been stable since some moment."""
        self._check()
        history = self.history.snapshot()
        return [
            group
            for group in self.groups
            if stable_again_s(history, self.places(group), fault_s=since_s) > time.monotonic()
        ]

    def __enter__(self) -> Self:
        for thread in (self._producing, *self._members, self._watching):
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Ends the load; every thread must go."""
        self._ending.set()
        for member in self._members:
            member.end()
        for thread in (self._producing, *self._members, self._watching):
            thread.join(STOP_DEADLINE_S)
        left = [each.name for each in (self._producing, *self._members, self._watching) if each.is_alive()]
        assert not left, f"still running: {left}"

    def _check(self) -> None:
        problems = [member.problem for member in self._members if member.problem]
        assert not problems, problems
        assert self._producing.is_alive()
        assert self._watching.is_alive()

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "log_level": 0, **self._settings})
        while not self._ending.wait(PRODUCE_INTERVAL_S):
            for partition in range(self._partitions):
                producer.produce(self._topic, value=b"record", partition=partition)
            producer.poll(0)
        producer.flush(STOP_DEADLINE_S)

    def _watch(self) -> None:
        """Asks one broker after the other, so that each is asked, whatever it knows of the others."""
        for address in itertools.cycle(self._bootstrap.split(",")):
            if self._ending.wait(WATCH_INTERVAL_S):
                return
            with contextlib.suppress(OSError, Silence), self._connect(address) as client:
                self._note_offsets(client)

    def _note_offsets(self, client: RawClient) -> None:
        asked_s = time.monotonic()
        answer = client.ask(_offset_fetch_request(self.groups))
        answered_s = time.monotonic()
        for group in answer.groups:
            if group.error_code is not ErrorCode.none:
                continue
            offsets = dict.fromkeys(range(self._partitions), NOTHING_COMMITTED)
            for topic in group.topics:
                for partition in topic.partitions:
                    if partition.error_code is ErrorCode.none:
                        offsets[partition.partition_index] = partition.committed_offset
                    else:
                        del offsets[partition.partition_index]
            self.history.told(group.group_id, offsets, asked_s=asked_s, answered_s=answered_s)


def _member_settings(bootstrap: str, group: str, member: str, kind: int) -> dict[str, Any]:
    protocol = PROTOCOLS[kind % len(PROTOCOLS)]
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": member,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        **protocol,
    }
    if "group.protocol" not in protocol:
        settings["session.timeout.ms"] = int(SESSION_TIMEOUT_S * 1000)
        settings["heartbeat.interval.ms"] = HEARTBEAT_INTERVAL_MS
    return settings


def _offset_fetch_request(groups: Iterable[str]) -> Any:
    wanted = tuple(offset_fetch.OffsetFetchRequestGroup(group_id=GroupId(group), topics=None) for group in groups)
    return offset_fetch.OffsetFetchRequest(groups=wanted)


def _numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    return [each.partition for each in partitions]
