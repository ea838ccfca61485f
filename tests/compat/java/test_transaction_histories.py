"""The same answers as Kafka 4.2 gives to histories of transactions: epochs, retries, zombies, mixed versions.

Each history is played on both clusters by requests of our own. Compared are every error, what readers of committed
and of all records see, both ends of partitions, and what tools are told. Producer ids go by the order of coming.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.transaction_client import COORDINATOR_OF_GROUPS, Producer, TransactionClient
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.reference.reference_kafka import ReferenceKafka

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

SETTINGS = {
    "transaction.max.timeout.ms": "120000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
_numbers = count()


@dataclass
class Play:
    """One history on one cluster.

    Attributes:
        client: its connection.
        topic, id, group: names that no other history has.
        told: what came of the steps so far.
    """

    client: TransactionClient
    topic: str
    id: str
    group: str
    told: list[Any] = field(default_factory=list)
    _producers: dict[int, str] = field(default_factory=dict)

    def tell(self, what: str, answer: Any) -> Any:
        """Notes an answer; returns it."""
        self.told.append((what, self._without_ids(answer)))
        return answer

    def _without_ids(self, answer: Any) -> Any:
        if isinstance(answer, Producer):
            if answer.id < 0:
                return "no producer", answer.epoch
            return self._producers.setdefault(answer.id, f"producer {len(self._producers)}"), answer.epoch
        if isinstance(answer, Mapping):
            return {key: self._without_ids(value) for key, value in answer.items() if key != "aborted"} | (
                {"aborted": [offset for _, offset in answer["aborted"]]} if "aborted" in answer else {}
            )
        if isinstance(answer, list | tuple):
            return type(answer)(self._without_ids(each) for each in answer)
        if isinstance(answer, str):
            return answer.replace(self.topic, "TOPIC").replace(self.id, "ID").replace(self.group, "GROUP")
        return answer

    # Steps that histories have in common

    def begun(self, **more: Any) -> Producer:
        """A producer that may begin a transaction."""
        error, producer = self.client.init(self.id, **more)
        self.tell("init", (error, producer))
        return producer

    def init(self, transactional_id: str | None, **more: Any) -> Producer:
        producer: Producer
        _, producer = self.tell("init", self.client.init(transactional_id, **more))
        return producer

    def add(self, producer: Producer, *partitions: int, topic: str | None = None) -> None:
        self.tell("add", self.client.add(self.id, producer, {topic or self.topic: partitions or (0,)}))

    def produce(self, producer: Producer, *values: bytes, **more: Any) -> str:
        more = {"transactional_id": self.id} | more
        identifier = more.pop("transactional_id")
        error = self.client.produce(identifier, producer, self.topic, values, **more)
        return str(self.tell(f"produce {values}", error))

    def end(self, producer: Producer, *, commit: bool = True, **more: Any) -> Producer:
        ended: Producer
        _, ended = self.tell(
            "commit" if commit else "abort", self.client.end(self.id, producer, commit=commit, **more)
        )
        return ended

    def describe(self) -> None:
        """Notes what DescribeTransactions tells; of an unknown id only the error counts."""
        described = self.client.describe(self.id)
        self.tell("described", described if described["error"] == "none" else described["error"])

    def wait(self) -> None:
        """Waits until no transaction is being completed."""
        eventually(self._is_completed, "the transaction is completed", within_s=30)

    def look(self) -> None:
        """Notes what readers see, once nothing is being completed."""
        self.wait()
        self.tell("committed", self.client.read(self.topic, committed=True))
        self.tell("all", self.client.read(self.topic, committed=False)["records"])
        self.tell("ends", [self.client.end_offset(self.topic, committed=each) for each in (True, False)])
        self.describe()
        self.tell("producers", self.client.producers(self.topic))

    def _is_completed(self) -> bool:
        return not str(self.client.describe(self.id)["state"]).startswith("Prepare")


History = Callable[[Play], None]


def commit_by_version_2(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a", b"b")
    play.tell("open", play.client.read(play.topic, committed=True))
    play.describe()
    producer = play.end(producer)
    play.look()
    play.produce(producer, b"c")
    play.end(producer)
    play.look()


def abort_by_version_2(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    producer = play.end(producer, commit=False)
    play.look()
    play.produce(producer, b"b")
    producer = play.end(producer)
    play.produce(producer, b"c")
    play.end(producer, commit=False)
    play.look()


def commit_by_version_1(play: Play) -> None:
    producer = play.begun(version=4)
    play.add(producer)
    play.produce(producer, b"a", version=11)
    play.produce(producer, b"b", sequence=1, version=11)
    play.end(producer, version=4)
    play.look()
    play.add(producer)
    play.produce(producer, b"c", sequence=2, version=11)
    play.end(producer, version=4, commit=False)
    play.look()


def produce_without_adding(play: Play) -> None:
    producer = play.begun(version=4)
    play.produce(producer, b"a", version=11, settle=False)
    play.end(producer, version=4)
    play.look()


def ends_without_a_transaction(play: Play) -> None:
    producer = play.begun()
    play.end(producer)
    producer = play.end(producer, commit=False)
    play.end(producer, commit=False)
    play.end(producer, version=4)
    play.end(producer, version=4, commit=False)
    play.describe()


def ends_that_are_repeated(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    play.end(producer)
    play.end(producer)
    play.end(producer, commit=False)
    play.look()


def ends_that_are_repeated_by_version_1(play: Play) -> None:
    producer = play.begun(version=4)
    play.add(producer)
    play.produce(producer, b"a", version=11)
    play.end(producer, version=3)
    play.end(producer, version=3)
    play.end(producer, version=3, commit=False)
    play.look()


def zombies(play: Play) -> None:
    zombie = play.begun()
    play.produce(zombie, b"a")
    producer = play.begun()
    play.produce(zombie, b"b", sequence=1)
    play.end(zombie)
    play.add(zombie)
    play.tell("offsets", play.client.add_offsets(play.id, zombie, play.group))
    play.produce(producer, b"c")
    play.produce(zombie, b"d", sequence=1)
    play.end(zombie, commit=False)
    play.end(zombie, version=4)
    play.end(producer)
    play.produce(zombie, b"e", sequence=1)
    play.look()


def zombies_by_version_1(play: Play) -> None:
    zombie = play.begun(version=4)
    play.add(zombie)
    play.produce(zombie, b"a", version=11)
    producer = play.begun(version=4)
    play.produce(zombie, b"b", sequence=1, version=11)
    play.add(zombie)
    play.end(zombie, version=4)
    play.add(producer)
    play.produce(producer, b"c", version=11)
    play.produce(zombie, b"d", sequence=1, version=11)
    play.end(producer, version=4)
    play.look()


def epochs_of_before_an_end(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    later = play.end(producer)
    play.wait()  # until then the log takes records of the epoch that was asked to end, there as here
    play.produce(producer, b"b", sequence=1)
    play.produce(producer, b"a")
    play.produce(later, b"c")
    play.produce(later.later(), b"d")
    play.produce(later, b"e", sequence=5)
    play.produce(later, b"c")
    play.end(later.later())
    play.end(later)
    play.look()


def producers_that_begin_anew(play: Play) -> None:
    producer = play.begun()
    again = play.begun(producer=producer)
    play.begun(producer=producer)
    play.begun(producer=again)
    play.begun(producer=Producer(again.id + 1_000_000, 0))
    play.begun(producer=again.later(7))
    play.produce(again, b"a")


def a_transaction_that_the_next_producer_aborts(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    play.begun(producer=producer)
    play.look()


def ids_and_timeouts_that_are_refused(play: Play) -> None:
    play.init("")
    play.init("", timeout_ms=0)
    play.init(play.id, timeout_ms=0)
    play.init(play.id, timeout_ms=-1)
    play.init(play.id, timeout_ms=120_001)
    play.init(play.id, timeout_ms=120_000)
    play.init(play.id, producer=Producer(5, -1))
    play.init(play.id, producer=Producer(-1, 5))
    play.init(None, producer=Producer(-1, -1))


def unknown_ids(play: Play) -> None:
    nobody = Producer(123_456, 0)
    play.add(nobody)
    play.end(nobody)
    play.end(nobody, version=3)
    play.tell("offsets", play.client.add_offsets(play.id, nobody, play.group))
    play.describe()
    play.produce(nobody, b"a")
    play.produce(nobody, b"a", version=11, settle=False)
    producer = play.begun()
    wrong = Producer(producer.id + 1_000_000, producer.epoch)
    play.add(wrong)
    play.end(wrong)
    play.produce(wrong, b"a")
    play.add(producer.later())
    play.end(producer.later())
    play.produce(producer.later(), b"b")


def partitions_that_are_not_there(play: Play) -> None:
    producer = play.begun()
    play.tell("add", play.client.add(play.id, producer, {play.topic: (0,), f"{play.topic}-not": (0,)}))
    play.tell("add", play.client.add(play.id, producer, {play.topic: (0, 99)}))
    play.tell("add", play.client.add(play.id, producer, {"__transaction_state": (0,)}))
    play.tell("add", play.client.add(play.id, producer, {play.topic: (0, 0)}))
    play.describe()
    play.end(producer)


def batches_of_other_kinds(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    play.produce(producer, b"b", sequence=1, transactional=False)
    play.produce(producer, b"c", sequence=1, transactional_id=None)
    play.produce(producer, b"d", sequence=3)
    play.produce(producer, b"a")
    play.produce(producer, b"e", sequence=1)
    play.end(producer)
    play.look()


def offsets_by_version_2(play: Play) -> None:
    producer = play.begun()
    play.tell("offset", play.client.commit_offset(play.id, producer, play.group, play.topic, 7))
    for stable in (True, False):
        play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=stable))
    play.describe()
    producer = play.end(producer)
    play.wait()
    play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=True))
    play.tell("offset", play.client.commit_offset(play.id, producer, play.group, play.topic, 9))
    play.end(producer, commit=False)
    play.wait()
    play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=True))


def offsets_by_version_1(play: Play) -> None:
    producer = play.begun(version=4)
    play.tell("offset", play.client.commit_offset(play.id, producer, play.group, play.topic, 5, version=3))
    play.tell("offsets", play.client.add_offsets(play.id, producer, play.group))
    play.tell("offset", play.client.commit_offset(play.id, producer, play.group, play.topic, 7, version=3))
    play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=True))
    play.end(producer, version=4)
    play.wait()
    play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=True))


def offsets_of_strangers(play: Play) -> None:
    producer = play.begun()
    commit = play.client.commit_offset
    play.tell("generation", commit(play.id, producer, play.group, play.topic, 7, generation=3))
    play.tell("member", commit(play.id, producer, play.group, play.topic, 7, member="nobody", generation=3))
    play.tell("epoch", commit(play.id, producer.later(), play.group, play.topic, 7))
    play.tell("id", commit(play.id, Producer(producer.id + 1_000_000, 0), play.group, play.topic, 7))
    play.tell("right", commit(play.id, producer, play.group, play.topic, 7))
    later = play.end(producer)
    play.wait()
    play.tell("late", commit(play.id, producer, play.group, play.topic, 8))
    play.tell("late by version 1", commit(play.id, producer, play.group, play.topic, 8, version=3))
    play.end(later)
    play.tell("fetched", play.client.committed_offset(play.group, play.topic, stable=True))


def what_tools_list(play: Play) -> None:
    producer = play.begun()
    play.produce(producer, b"a")
    pattern = f"{play.id}.*"

    def listed(**filters: Any) -> None:
        error, found = play.client.list_transactions(transactional_id_pattern=pattern, **filters)
        play.tell(f"listed {sorted(filters)}", (error, found))

    listed()
    listed(state_filters=("Ongoing",))
    listed(state_filters=("Empty", "Nonsense"))
    listed(duration_filter=600_000)
    listed(producer_id_filters=(producer.id,))
    listed(producer_id_filters=(producer.id + 1_000_000,))
    play.tell("bad pattern", play.client.list_transactions(transactional_id_pattern="(")[0])
    play.end(producer)
    play.wait()
    listed()
    listed(duration_filter=0)


def markers_by_hand(play: Play) -> None:
    play.begun()
    producer = play.begun()
    play.produce(producer, b"a")
    play.tell("stale", play.client.write_marker(Producer(producer.id, producer.epoch - 1), play.topic, commit=False))
    play.tell("abort", play.client.write_marker(producer, play.topic, commit=False))
    play.tell("again", play.client.write_marker(producer, play.topic, commit=False))
    play.tell("committed", play.client.read(play.topic, committed=True))
    play.tell("unknown", play.client.write_marker(producer, play.topic, commit=False, partition=99))
    play.produce(producer, b"b", sequence=1)
    play.end(producer)
    play.look()


def a_transaction_that_takes_too_long(play: Play) -> None:
    producer = play.begun(timeout_ms=1000)
    play.produce(producer, b"a")
    eventually(
        lambda: play.client.describe(play.id)["state"] == "CompleteAbort", "it is aborted in time", within_s=60
    )
    play.produce(producer, b"b", sequence=1)
    play.end(producer)
    play.end(producer, version=4)
    play.add(producer)
    play.look()
    play.begun(producer=producer)


def versions_that_are_mixed(play: Play) -> None:
    producer = play.begun()
    play.add(producer)
    play.produce(producer, b"a", version=11)
    producer = play.end(producer)
    play.produce(producer, b"b")
    play.add(producer)
    play.end(producer, version=4)
    play.look()
    play.add(producer)
    play.produce(producer, b"c", version=11, sequence=1)
    play.end(producer)
    play.look()


EXPLAINED: Mapping[History, Mapping[int, Any]] = {
    # A commit that a time-out has overtaken: Kafka 4.2 says what producers give up upon; it is PRODUCER_FENCED since
    # KAFKA-20785, after which they can begin anew.
    a_transaction_that_takes_too_long: {3: ("commit", ("producer_fenced", ("producer 0", 0)))},
}
"""By history: answers that are not Kafka's, by their number, and why."""

HISTORIES: tuple[History, ...] = (
    commit_by_version_2,
    abort_by_version_2,
    commit_by_version_1,
    produce_without_adding,
    ends_without_a_transaction,
    ends_that_are_repeated,
    ends_that_are_repeated_by_version_1,
    zombies,
    zombies_by_version_1,
    epochs_of_before_an_end,
    producers_that_begin_anew,
    a_transaction_that_the_next_producer_aborts,
    ids_and_timeouts_that_are_refused,
    unknown_ids,
    partitions_that_are_not_there,
    batches_of_other_kinds,
    offsets_by_version_2,
    offsets_by_version_1,
    offsets_of_strangers,
    what_tools_list,
    markers_by_hand,
    a_transaction_that_takes_too_long,
    versions_that_are_mixed,
)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with ExitStack() as closing:
        kafka = closing.enter_context(ReferenceKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS))
        directory = tmp_path_factory.mktemp("ottla")
        settings = [f"group-coordinator:{key}={value}" for key, value in SETTINGS.items()]
        settings.append("broker:offsets.topic.num.partitions=1")
        ottla = closing.enter_context(
            OttlaCluster(directory, arguments=[each for setting in settings for each in ("--set", setting)])
        )
        yield kafka.bootstrap, ottla.bootstrap


def is_led(client: TransactionClient, topic: str, partition: int) -> bool:
    return bool(client.read(topic, committed=False, partition=partition)["error"] == "none")


def played(history: History, bootstrap: str, number: int) -> list[Any]:
    """Plays a history; returns what was told."""
    topic, transactional_id, group = f"topic-{number}", f"id-{number}", f"group-{number}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    with TransactionClient(bootstrap) as client:
        client.find(transactional_id)
        client.find(group, COORDINATOR_OF_GROUPS)
        for partition in (0, 1):
            eventually(partial(is_led, client, topic, partition), f"{topic}-{partition} has a leader", within_s=30)
        play = Play(client, topic, transactional_id, group)
        history(play)
    return play.told


@pytest.mark.parametrize("history", HISTORIES, ids=lambda each: each.__name__)
def test_a_history_is_answered_as_kafka_answers_it(history: History, addresses: tuple[str, str]) -> None:
    number = next(_numbers)
    kafka, ottla = (played(history, address, number) for address in addresses)
    assert [EXPLAINED.get(history, {}).get(number, told) for number, told in enumerate(kafka)] == ottla
