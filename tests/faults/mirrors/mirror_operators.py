"""Operators of both clusters of a trial of mirrors: elections, topics that are created anew or extended, deletions.

Those who change topics of the source write them as well, and know what must be there. Linked topics are extended at
the target, too, as `ottla mirror link refresh` does.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from confluent_kafka import KafkaError, Message, Producer

from ottla_core.client.errors import Unreachable
from ottla_core.errors import KafkaError as OttlaKafkaError
from tests.faults.cluster import Cluster
from tests.faults.fault import BROKER, Fault, Kind, id_of
from tests.faults.mirrors.mirror_load import LINK
from tests.faults.mirrors.operated_topics import GROWING, REBORN, RECORDS_AT_ONCE, key_of
from tests.faults.mirrors.sites import SOURCE_FACTOR
from tests.faults.operator_requests import OperatorRequests
from tests.faults.operators import OperatorThreads, elect
from tests.faults.topics import PARTITIONS, SOURCE, TARGET
from tests.support.clients.raw_client import Silence
from tests.support.clients.raw_requests import delete_records_request
from tests.support.clusters.linked_clusters import LinkClient
from tests.support.eventually import eventually

DELETE_INTERVAL_S = 0.3
WRITE_DEADLINE_S = 90.0
GROW_DEADLINE_S = 90.0
GROWING_PARTITIONS_MAX = 6
UP_TO_THE_END = -1
PASSING = (OttlaKafkaError, Unreachable, OSError, AssertionError, Silence)


class LinkOfTrial(LinkClient):
    """Steers the link of a trial.

    Attributes:
        settings: with what the target's brokers come to the source's.
    """

    def __init__(self, source: Cluster, target: Cluster) -> None:
        clients = source.clients
        seen_by_brokers = source.bootstrap if clients is None else clients.bootstrap_of(LINK)
        super().__init__(seen_by_brokers, seen_at=source.bootstrap.split(",")[0])
        self.settings = {} if clients is None else clients.access_of(LINK).security_settings
        self._sources = source.bootstrap.split(",")
        self._targets = target.bootstrap.split(",")

    def addresses(self) -> Sequence[str]:
        return self._targets

    def until_done(self, ask: Callable[[], object], what: str, *, within_s: float = GROW_DEADLINE_S) -> None:
        """Repeats a request until it is granted, with another of the source's brokers each time."""

        def attempt() -> bool:
            try:
                ask()
            except PASSING as error:
                self._sources.append(self._sources.pop(0))
                self.seen_at = self._sources[0]
                raise ConnectionError(str(error)) from error
            return True

        eventually(attempt, what, within_s=within_s)


class MirrorOperators:
    """All operators of a trial of mirrors.

    Attributes:
        written: for the topics that operators write, how many records of each partition were acknowledged: of
            `REBORN` in each life, of `GROWING` in the one that it has.
    """

    def __init__(self, source: Cluster, target: Cluster, link: LinkOfTrial, *, seed: int) -> None:
        self.written: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self._bootstrap = source.bootstrap
        self._link = link
        self._one_at_a_time = threading.Lock()
        self._of = {
            SOURCE: OperatorThreads(
                _addresses(source),
                seed=seed,
                work={
                    Kind.ELECT: elect,
                    Kind.RECREATE: self._recreate,
                    Kind.GROW: self._grow,
                    Kind.OVERTAKE: self._overtake,
                },
            ),
            TARGET: OperatorThreads(_addresses(target), seed=seed, work={Kind.ELECT: elect}),
        }

    @property
    def problems(self) -> list[str]:
        """What could not be done."""
        return [problem for operators in self._of.values() for problem in operators.problems]

    def partitions_of(self, topic: str) -> list[tuple[str, int]]:
        """The partitions that an operated topic has."""
        return [partition for partition in list(self.written) if partition[0] == topic]

    def ids_at_target(self, topics: Iterable[str]) -> dict[UUID, str]:
        """Names of topics of the target, by their ids; the cluster must be well."""
        requests = self._of[TARGET].requests("the end")
        return {requests.wait_for_topic(topic).topic_id: topic for topic in topics}

    def write_first(self) -> None:
        """Writes the first records of all topics that operators write."""
        for topic in (*REBORN, *GROWING):
            self.written[topic, 0].append(0)
            self._write(topic, 0)

    def begin(self, fault: Fault) -> None:
        self._operators_of(fault).begin(fault)

    def end(self, fault: Fault) -> None:
        self._operators_of(fault).end(fault)

    def note_crash(self, now_s: float) -> None:
        """Nothing depends on it here."""

    def finish(self) -> None:
        """Waits until everything is done and undone; the clusters must be well."""
        for operators in self._of.values():
            operators.finish()

    def close(self) -> None:
        """Has everybody give up."""
        for operators in self._of.values():
            operators.close()

    def _operators_of(self, fault: Fault) -> OperatorThreads:
        return self._of[fault.targets[0] if fault.kind is Kind.ELECT else SOURCE]

    def _recreate(self, _fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
        with self._one_at_a_time:
            for topic in REBORN:
                requests.delete_topic(topic, requests.wait_for_topic(topic).topic_id)
                requests.create_topic(topic, partitions=1, factor=SOURCE_FACTOR, configs={})
                self.written[topic, 0].append(0)
                self._write(topic, 0)
            ending.wait()
            for topic in REBORN:
                self._write(topic, 0)

    def _grow(self, _fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
        with self._one_at_a_time:
            index = sum(topic == GROWING.copied for topic, _ in self.written)
            if index >= GROWING_PARTITIONS_MAX:
                return
            for topic in GROWING:
                requests.add_partitions(topic, index + 1)
                self.written[topic, index].append(0)
                self._write(topic, index)
            self._link.until_done(lambda: self._link.grow(GROWING.linked), "the linked topic grows")
            ending.wait()
            for topic in GROWING:
                self._write(topic, 0)
                self._write(topic, index)

    def _overtake(self, fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
        """Deletes all that there is, again and again, while the mirrors are cut off."""
        while True:
            for topic in fault.targets:
                for index in range(PARTITIONS):
                    self._delete_records(requests, topic, index)
            if ending.wait(DELETE_INTERVAL_S):
                return

    def _delete_records(self, requests: OperatorRequests, topic: str, index: int) -> None:
        try:
            leader = requests.wait_for_topic(topic).partitions[index].leader
            if leader in requests.addresses:
                requests.ask(delete_records_request(topic, UP_TO_THE_END, partition=index), leader)
        except ConnectionError:
            return  # it is tried again soon

    def _write(self, topic: str, index: int) -> None:
        """Writes the next records of a partition; all of them are acknowledged.

        Raises:
            AssertionError: one is not.
        """
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        lives = self.written[topic, index]
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "delivery.timeout.ms": int(WRITE_DEADLINE_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "metadata.recovery.strategy": "none",
                "topic.metadata.refresh.fast.interval.ms": 100,
                "log_level": 3,
            }
        )
        key = key_of(len(lives) - 1)
        for number in range(lives[-1], lives[-1] + RECORDS_AT_ONCE):
            value = f"{number}:{topic} {index} {time.time_ns()}"
            producer.produce(topic, value, key, partition=index, on_delivery=delivered)
        left = producer.flush(WRITE_DEADLINE_S + 5)
        assert not left, f"{left} records of {topic}-{index} are not answered"
        assert not failures, f"{topic}-{index} took no record: {failures[0]}"
        lives[-1] += RECORDS_AT_ONCE


def _addresses(cluster: Cluster) -> dict[int, tuple[str, int]]:
    return {id_of(name): cluster.kafka_address(name) for name in cluster.members.of(BROKER)}
