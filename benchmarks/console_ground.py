"""What all cases of `python -m benchmarks console` stand on: requests, topics, the console's memory."""

import json
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed, wait_until_served
from benchmarks.process_stats import forget_peak, peak_mib, resident_mib
from benchmarks.summary import Measures
from tests.support.eventually import eventually

TOPICS_AT_ONCE: Final = 250
ADMIN_TIMEOUT_S: Final = 120.0
SEARCHED: Final = "messages-searched"
_PROBLEM: Final = re.compile(r'role="alert"[^>]*>([^<]+)')
Answered = Callable[[httpx.Response], None]


@dataclass(frozen=True, kw_only=True)
class ConsoleGround:
    """A cluster with a console.

    Attributes:
        directory: for files of programs beside it.
        bootstrap: of the cluster.
        browser: asks the console.
        pid: of the console.
        messages: of the topic that is searched; it is filled when a case wants it.
        say: tells how far it is.
    """

    directory: Path
    bootstrap: str
    browser: httpx.Client
    pid: int
    messages: int
    say: Callable[[str], None] = field(repr=False)

    @cached_property
    def admin(self) -> AdminClient:
        """Asks the cluster."""
        return AdminClient({"bootstrap.servers": self.bootstrap, **CLIENT_SETTINGS})

    @cached_property
    def searched(self) -> str:
        """The topic with as many JSON documents of about 200 bytes as planned."""
        self.say(f"publishing {self.messages:,} messages")
        self.make_topics([SEARCHED])
        self.publish(SEARCHED, ({"value": _document(number)} for number in range(self.messages)))
        return SEARCHED

    def make_topics(self, names: list[str], partitions: int = 1) -> None:
        """Create topics, and wait until the last of them can be written, and the console shows it."""
        for first in range(0, len(names), TOPICS_AT_ONCE):
            some = names[first:][:TOPICS_AT_ONCE]
            wanted = [NewTopic(each, num_partitions=partitions, replication_factor=1) for each in some]
            wait(self.admin.create_topics(wanted, request_timeout=ADMIN_TIMEOUT_S).values())
        wait_until_served(self.bootstrap, names[-1], partitions)
        page = f"/clusters/local/topics/{names[-1]}"
        eventually(
            lambda: self.browser.get(page).status_code == httpx.codes.OK, f"{page} is there", within_s=ADMIN_TIMEOUT_S
        )

    def publish(self, topic: str, records: Iterable[dict[str, Any]], **settings: Any) -> None:
        """Publish records, each as the arguments of confluent-kafka's `produce` have it.

        Raises:
            BenchmarkFailed: not all of them were taken.
        """
        own = {"bootstrap.servers": self.bootstrap, "linger.ms": 20, "compression.type": "lz4"}
        producer = Producer({**own, **CLIENT_SETTINGS, **settings})
        refused: list[str] = []

        def told(error: object, _: object) -> None:
            if error is not None and not refused:
                refused.append(str(error))

        for record in records:
            _produce(producer, topic, told, record)
        if producer.flush(ADMIN_TIMEOUT_S) or refused:
            raise BenchmarkFailed(f"the topic {topic} could not be filled: {(refused or ['no answer'])[0]}")

    def asked_ms(self, path: str, answered: Answered = lambda _: None) -> float:
        """Ask for a page of the cluster, hand it over, and return how long it took.

        Raises:
            BenchmarkFailed: the console answers with an error.
        """
        began_s = time.perf_counter()
        answer = self.browser.get(path if path.startswith("/clusters/") else f"/clusters/local{path}")
        elapsed_ms = (time.perf_counter() - began_s) * 1000
        if answer.status_code != httpx.codes.OK:
            told = _PROBLEM.search(answer.text)
            reason = unescape(told.group(1)) if told else "without a reason"
            raise BenchmarkFailed(f"{path} is answered with {answer.status_code}: {reason}")
        answered(answer)
        return elapsed_ms

    def view(self, path: str, repetitions: int, answered: Answered = lambda _: None) -> Measures:
        """Ask for a page again and again; the first answer is told apart, as it makes the user's connections.

        Raises:
            BenchmarkFailed: the console answers with an error.
        """
        sizes: list[int] = []

        def handed(answer: httpx.Response) -> None:
            sizes.append(len(answer.content))
            answered(answer)

        first, *others = [self.asked_ms(path, handed) for _ in range(repetitions + 1)]
        median = statistics.median(others) if others else first
        longest = max(others) if others else first
        return {"first_ms": first, "median_ms": median, "longest_ms": longest, "page_kib": max(sizes) / 1024}

    @contextmanager
    def memory(self) -> Iterator[dict[str, float]]:
        """Yield measures that have the console's memory when it is left: the most in it, and what stays."""
        forget_peak(self.pid)
        found: dict[str, float] = {}
        yield found
        found |= {"peak_mib": peak_mib(self.pid), "after_mib": resident_mib(self.pid)}


def address(path: str, **parameters: str) -> str:
    """Return an address below the cluster's."""
    return f"{path}?{urlencode(parameters)}" if parameters else path


def wait(futures: Iterable[Future[Any]]) -> None:
    """Wait for what was asked of the cluster."""
    for each in futures:
        each.result(ADMIN_TIMEOUT_S)


def _document(number: int) -> str:
    document = {
        "order": number,
        "customer": f"customer-{number % 9_973:05}",
        "city": ("Prague", "Berlin", "Vienna", "Zürau")[number % 4],
        "amount": number % 10_007 / 100,
        "note": f"{number * 2_654_435_761 % 2**64:016x}" * 5,
    }
    return json.dumps(document, ensure_ascii=False)


def _produce(producer: Producer, topic: str, told: Callable[[object, object], None], record: dict[str, Any]) -> None:
    while True:
        try:
            producer.produce(topic, on_delivery=told, **record)
        except BufferError:
            producer.poll(0.1)
        else:
            break
    producer.poll(0)
