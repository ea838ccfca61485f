"""One run of ETLs while brokers die: feed the sources, kill and start brokers in turn, wait until all is done, judge.

All crews work at the same time and are fed at the same rate. A broker is killed every so often, but never before all
that died earlier are in sync again.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.compat.etl.clusters import Cluster, make_topics
from tests.compat.etl.crew import Crew, committed
from tests.compat.etl.judgement import History, Origin, Verdict, judged
from tests.support.eventually import NotInTime, eventually

PARTITIONS = 6
JOIN_DEADLINE_S = 120.0
DRAIN_DEADLINE_S = 120.0
FLUSH_DEADLINE_S = 120.0
FEED_INTERVAL_S = 0.05
STEP_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run consists of.

    Attributes:
        workers: of each client.
        rate_per_s: records for each source.
        kills: how many brokers die.
        kill_every_s: the shortest time from one death to the next.
        down_s: how long a broker is away before it is started again.
        workers_too: kill a worker of each client with each broker, and start another with it. Without that nobody may
            ever look up what was committed, for where group coordinators live on, members keep their partitions.
    """

    clients: Sequence[str]
    workers: int = 2
    rate_per_s: float = 60.0
    kills: int = 8
    kill_every_s: float = 8.0
    down_s: float = 4.0
    workers_too: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one client's run came to.

    Attributes:
        unacknowledged: records for the source that its producer never got acknowledged.
        missing: records that were acknowledged and are not in the source.
        behind: whether the crew had not come to the end when it was stopped.
    """

    client: str
    verdict: Verdict
    history: History
    unacknowledged: int
    missing: int
    behind: bool


class Feeder(threading.Thread):
    """Writes numbered records to the partitions of all sources in turn, at a steady rate."""

    def __init__(self, bootstrap: str, sources: Sequence[str], rate_per_s: float):
        super().__init__(name="feeder", daemon=True)
        self.acknowledged: dict[str, set[str]] = {source: set() for source in sources}
        self.failed: dict[str, int] = dict.fromkeys(sources, 0)
        self._rate_per_s = rate_per_s
        self._ending = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": int(FLUSH_DEADLINE_S * 1000),
                "reconnect.backoff.max.ms": 500,
                "metadata.recovery.strategy": "none",
                "log_level": 0,
            }
        )

    def run(self) -> None:
        begun_s, number = time.monotonic(), 0
        while not self._ending.wait(FEED_INTERVAL_S):
            due = int((time.monotonic() - begun_s) * self._rate_per_s)
            while number < due:
                for source in self.acknowledged:
                    self._send(source, f"record {number}", number % PARTITIONS)
                number += 1
            self._producer.poll(0)

    def finish(self) -> None:
        """Ends it once everything is answered."""
        self._ending.set()
        self.join()
        self._producer.flush(FLUSH_DEADLINE_S)

    def _send(self, source: str, value: str, partition: int) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self.acknowledged[source].add(value)
            else:
                self.failed[source] += 1

        self._producer.produce(source, value=value, partition=partition, on_delivery=delivered)


def run(cluster: Cluster, plan: Plan, directory: Path, say: Callable[[str], None]) -> list[Outcome]:
    """Run all clients' crews at once, and judge each."""
    crews = [Crew(client, cluster.bootstrap, directory, workers=plan.workers) for client in plan.clients]
    make_topics(cluster.bootstrap, [topic for crew in crews for topic in (crew.source, crew.sink)], PARTITIONS)
    feeder = Feeder(cluster.bootstrap, [crew.source for crew in crews], plan.rate_per_s)
    try:
        for crew in crews:
            crew.start()
        for crew in crews:
            eventually(lambda crew=crew: _has_joined(crew), f"{crew.client} has joined", within_s=JOIN_DEADLINE_S)
        cluster.wait_until_whole()
        feeder.start()
        _kill_in_turn(cluster, plan, crews, say)
        feeder.finish()
        sources = {crew.client: read_topic(cluster.bootstrap, crew.source) for crew in crews}
        behind = {crew.client: not _drained(crew, _ends(sources[crew.client])) for crew in crews}
        for crew in crews:
            crew.stop()
        return [
            _outcome(crew, feeder, sources[crew.client], sink, behind=behind[crew.client])
            for crew in crews
            for sink in [read_topic(cluster.bootstrap, crew.sink)]
        ]
    finally:
        for crew in crews:
            crew.kill()


def read_topic(bootstrap: str, topic: str) -> dict[Origin, str]:
    """Every record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "metadata.recovery.strategy": "none",
        }
    )
    records: dict[Origin, str] = {}
    ended: set[int | None] = set()
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        deadline_s = time.monotonic() + DRAIN_DEADLINE_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline_s, f"{topic}: only {ended} of {PARTITIONS} partitions were read"
            for message in consumer.consume(10_000, timeout=0.2):
                error, value, offset, partition = (
                    message.error(),
                    message.value(),
                    message.offset(),
                    message.partition(),
                )
                if error is None:
                    assert isinstance(value, bytes)
                    assert offset is not None
                    assert partition is not None
                    records[Origin(partition, offset)] = value.decode()
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
    finally:
        consumer.close()
    return records


def _kill_in_turn(cluster: Cluster, plan: Plan, crews: list[Crew], say: Callable[[str], None]) -> None:
    _rest(plan.kill_every_s, crews)
    for turn in range(plan.kills):
        killed_s = time.monotonic()
        cluster.kill(turn)
        for crew in crews:
            if plan.workers_too:
                crew.kill_one(turn)
        _rest(plan.down_s, crews)
        cluster.begin_again(turn)
        for crew in crews:
            crew.start()
        cluster.wait_until_whole()
        say(f"{cluster.name}: kill {turn + 1} of {plan.kills}, whole again after {time.monotonic() - killed_s:.1f} s")
        _rest(killed_s + plan.kill_every_s - time.monotonic(), crews)


def _rest(seconds: float, crews: list[Crew]) -> None:
    """The schedule's time goes by; nothing is expected of it but that workers live on."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for crew in crews:
            crew.check_running()
        time.sleep(STEP_S)  # between two looks; `until_s` ends them


def _has_joined(crew: Crew) -> bool:
    crew.check_running()
    return {claim.partition for claim in crew.history.claims} == set(range(PARTITIONS))


def _drained(crew: Crew, ends: dict[int, int]) -> bool:
    """Whether the crew came to the end in time."""

    def is_at_end() -> bool:
        offsets = committed(crew.history)
        return all(offsets.get(partition, 0) >= end for partition, end in ends.items())

    with contextlib.suppress(NotInTime):
        return eventually(is_at_end, f"{crew.client} has come to the end", within_s=DRAIN_DEADLINE_S)
    return False


def _ends(records: dict[Origin, str]) -> dict[int, int]:
    ends: dict[int, int] = {}
    for partition, offset in records:
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    return ends


def _outcome(
    crew: Crew, feeder: Feeder, source: dict[Origin, str], sink: dict[Origin, str], *, behind: bool
) -> Outcome:
    history = crew.history
    return Outcome(
        client=crew.client,
        verdict=judged(source, list(sink.values()), history),
        history=history,
        unacknowledged=feeder.failed[crew.source],
        missing=len(feeder.acknowledged[crew.source] - set(source.values())),
        behind=behind,
    )
