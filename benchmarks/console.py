"""The console of a cluster with thousands of topics and groups: its views, its search, and what both take of memory.

Each view is asked for as a browser does, without what pages load beside it, first once and then as often as planned:
the first answer is told apart, since it makes the user's connections. The search looks for a word that no message
has, so it reads all of them, page after page as a reader goes on; kcat, which prints all of them to `grep`, is the
peer. A browser's own time is not measured.
"""

import json
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.client import CLIENT_SETTINGS, BenchmarkFailed
from benchmarks.process_stats import cpu_time, listener_pid, peak_mib
from benchmarks.summary import Measures
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

TOPICS_AT_ONCE: Final = 250
ADMIN_TIMEOUT_S: Final = 120.0
ANSWER_TIMEOUT_S: Final = 60.0
PAGES_MAX: Final = 1_000
"""Of one search; each looks for some seconds."""
SEARCHED: Final = "messages-searched"
ABSENT: Final = "zq-no-message-has-this"
VIEWS: Final = {
    "overview": "",
    "topics": "/topics",
    "topics-searched": "/topics?q=many-04",
    "topics-last-page": "/topics?page=100",
    "one-topic": f"/topics/{SEARCHED}",
    "groups": "/groups",
    "groups-searched": "/groups?q=many-099",
    "brokers": "/brokers",
    "messages-newest": f"/topics/{SEARCHED}/messages",
}


@dataclass(frozen=True, kw_only=True)
class ConsolePlan:
    """What to measure.

    Attributes:
        topics, groups: how many there are.
        messages: how many are searched; JSON documents of about 200 bytes.
        repetitions: how often each view is asked for after the first time.
    """

    topics: int = 5_000
    groups: int = 1_000
    messages: int = 1_000_000
    repetitions: int = 20


def measure(directory: Path, plan: ConsolePlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the times of views in milliseconds, those of the search beside kcat's, and the console's memory.

    Raises:
        BenchmarkFailed: the console answers with an error, or a search does not end.
    """
    (port,) = free_ports(1)
    with OttlaCluster(directory / "cluster", arguments=["--console", "--console-port", str(port)]) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **CLIENT_SETTINGS})
        say(f"making {plan.topics} topics")
        _make_topics(admin, [SEARCHED, *(f"many-{number:05}" for number in range(plan.topics))])
        say(f"making {plan.groups} groups")
        eventually(lambda: _has_groups(admin, plan.groups), "each group has an offset", within_s=ADMIN_TIMEOUT_S)
        say(f"publishing {plan.messages} messages")
        _publish(cluster.bootstrap, plan.messages)
        pid = listener_pid(port)
        measured: dict[str, Measures] = {}
        with httpx.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=ANSWER_TIMEOUT_S) as browser:
            for name, path in VIEWS.items():
                measured[name] = _view(browser, f"/clusters/local{path}", plan.repetitions)
            measured["memory"] = {"after_views_peak_mib": peak_mib(pid)}
            say("searching")
            measured["search"] = _search(browser, pid, plan.messages)
        if (kcat := shutil.which("kcat")) is None:
            say("kcat is not installed, so there is nothing beside the search")
        else:
            measured["kcat-and-grep"] = _kcat(kcat, cluster.bootstrap, plan.messages)
        measured["memory"] = {**measured["memory"], "after_search_peak_mib": peak_mib(pid)}
        return measured


def _make_topics(admin: AdminClient, names: list[str]) -> None:
    for first in range(0, len(names), TOPICS_AT_ONCE):
        wanted = [NewTopic(each, num_partitions=1, replication_factor=1) for each in names[first:][:TOPICS_AT_ONCE]]
        _wait(admin.create_topics(wanted, request_timeout=ADMIN_TIMEOUT_S).values())


def _has_groups(admin: AdminClient, groups: int) -> bool:
    """Commit an offset for each group, and tell whether all are committed: a coordinator may still be loading."""
    futures: list[Future[Any]] = []
    for number in range(groups):
        wanted = [ConsumerGroupTopicPartitions(f"many-{number:04}", [TopicPartition(SEARCHED, 0, number)])]
        futures += admin.alter_consumer_group_offsets(wanted, request_timeout=ADMIN_TIMEOUT_S).values()
    return all(each.error is None for future in futures for each in future.result().topic_partitions)


def _wait(futures: Iterable[Future[Any]]) -> None:
    for each in futures:
        each.result(ADMIN_TIMEOUT_S)


def _publish(bootstrap: str, messages: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4", **CLIENT_SETTINGS}
    )
    for number in range(messages):
        document = {
            "order": number,
            "customer": f"customer-{number % 9_973:05}",
            "city": ("Prague", "Berlin", "Vienna", "Zürau")[number % 4],
            "amount": number % 10_007 / 100,
            "note": f"{number * 2_654_435_761 % 2**64:016x}" * 5,
        }
        while True:
            try:
                producer.produce(SEARCHED, json.dumps(document, ensure_ascii=False))
            except BufferError:
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    if producer.flush(ADMIN_TIMEOUT_S):
        raise BenchmarkFailed(f"the topic {SEARCHED} could not be filled")


def _view(browser: httpx.Client, path: str, repetitions: int) -> Measures:
    first, *others = [_asked_ms(browser, path) for _ in range(repetitions + 1)]
    return {"first_ms": first, "median_ms": statistics.median(others), "longest_ms": max(others)}


def _asked_ms(browser: httpx.Client, path: str) -> float:
    began_s = time.perf_counter()
    answer = browser.get(path)
    if answer.status_code != httpx.codes.OK:
        raise BenchmarkFailed(f"{path} is answered with {answer.status_code}")
    return (time.perf_counter() - began_s) * 1000


def _search(browser: httpx.Client, pid: int, messages: int) -> Measures:
    before, began_s = cpu_time(pid), time.perf_counter()
    path: str | None = f"/clusters/local/topics/{SEARCHED}/messages?q={ABSENT}&order=oldest"
    for _ in range(PAGES_MAX):
        if path is None:
            break
        answer = browser.get(path)
        if answer.status_code != httpx.codes.OK:
            raise BenchmarkFailed(f"the search is answered with {answer.status_code}")
        path = _next_page(answer.text)
    else:
        raise BenchmarkFailed(f"the search did not end within {PAGES_MAX} pages")
    wall_s = time.perf_counter() - began_s
    cpu_s = (cpu_time(pid) - before).total_s
    return {"wall_s": wall_s, "cpu_s": cpu_s, "messages_per_s": messages / wall_s}


class _NextPage(HTMLParser):
    """Finds the link that goes on."""

    address: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a" and given.get("rel") == "next":
            self.address = given.get("href")


def _next_page(page: str) -> str | None:
    parser = _NextPage()
    parser.feed(page)
    return parser.address


def _kcat(kcat: str, bootstrap: str, messages: int) -> Measures:
    """What `kcat -C -e | grep` takes."""
    began_s = time.perf_counter()
    with subprocess.Popen(
        [kcat, "-C", "-q", "-e", "-b", bootstrap, "-t", SEARCHED, "-o", "beginning"], stdout=subprocess.PIPE
    ) as reading:
        found = subprocess.run(
            ["grep", "-c", ABSENT], stdin=reading.stdout, capture_output=True, text=True, check=False
        )
    wall_s = time.perf_counter() - began_s
    if reading.returncode or found.stdout.strip() != "0":
        raise BenchmarkFailed(f"kcat ended with {reading.returncode}, grep found {found.stdout.strip()}")
    return {"wall_s": wall_s, "messages_per_s": messages / wall_s}
