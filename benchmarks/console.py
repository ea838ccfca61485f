"""The console of a cluster with thousands of topics and groups: its pages, search, SQL, and memory.

Each page is asked for as a browser does, without what pages load beside it, first once and then as often as planned:
the first answer is told apart. A browser's own time is not measured. What is measured comes in cases, on one cluster
and one console, in the order of `CASES`; the console's memory is told for each case, with the most that was in it
during that case alone.

The search looks for a word that no message has, so it reads all of them, page after page as a reader goes on; kcat,
which prints all of them to `grep`, is the peer.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import httpx
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from benchmarks import console_contents, console_sql
from benchmarks.client import BenchmarkFailed
from benchmarks.console_ground import ADMIN_TIMEOUT_S, SEARCHED, ConsoleGround, address
from benchmarks.process_stats import cpu_time, listener_pid
from benchmarks.summary import Measures, short
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

ANSWER_TIMEOUT_S: Final = 60.0
PAGES_MAX: Final = 1_000
"""Of one search; each looks for some seconds."""
ABSENT: Final = "zq-no-message-has-this"
VIEWS: Final = {
    "overview": "",
    "topics": "/topics",
    "topics-searched": "/topics?q=many-04",
    "topics-last-page": "/topics?page=100",
    "one-topic": f"/topics/{SEARCHED}",
    "topic-settings": f"/topics/{SEARCHED}/settings",
    "groups": "/groups",
    "groups-searched": "/groups?q=many-099",
    "one-group": "/groups/many-0000",
    "brokers": "/brokers",
    "events": "/events",
    "state": "/state",
    "users": "/security/users",
    "quotas": "/security/quotas",
    "moves": "/moves",
    "mirrors": "/mirrors",
    "messages-newest": f"/topics/{SEARCHED}/messages",
}
CASES: Final = ("views", "search", "sql", "large", "hostile")


@dataclass(frozen=True, kw_only=True)
class ConsolePlan:
    """What to measure.

    Attributes:
        cases: which of `CASES`.
        topics, groups: how many there are, in the case of views and in those behind it.
        messages: how many are searched; JSON documents of about 200 bytes.
        repetitions: how often each view is asked for after the first time; of the other cases, which have pages that
            take seconds, a quarter as often.
        large_messages: of the large topic.
        hostile_messages: of each kind: of 1 MB, bytes, scripts, terminal codes, deep JSON.
        spark: whether Spark answers the SQL, too.
    """

    cases: Sequence[str] = CASES
    topics: int = 5_000
    groups: int = 1_000
    messages: int = 1_000_000
    repetitions: int = 20
    large_messages: int = 10_000_000
    hostile_messages: int = 200
    spark: bool = True

    @property
    def few(self) -> int:
        """Repetitions of pages that may take seconds."""
        return max(1, self.repetitions // 4)


def measure(directory: Path, plan: ConsolePlan, say: Callable[[str], None]) -> dict[str, Measures]:
    """Return the figures of each case, times of pages in milliseconds, and the console's memory.

    Raises:
        BenchmarkFailed: the console answers with an error, or a search does not end.
    """
    (port,) = free_ports(1)
    with (
        OttlaCluster(directory / "cluster", arguments=["--console", "--console-port", str(port)]) as cluster,
        httpx.Client(base_url=f"http://{LOOPBACK}:{port}", timeout=ANSWER_TIMEOUT_S) as browser,
    ):
        ground = ConsoleGround(
            directory=directory,
            bootstrap=cluster.bootstrap,
            browser=browser,
            pid=listener_pid(port),
            messages=plan.messages,
            say=say,
        )
        measured: dict[str, Measures] = {}
        for case in (each for each in CASES if each in plan.cases):
            say(case)
            found = _MEASURED[case](ground, plan)
            for name, measures in found.items():  # so that it is not lost if a later case fails
                say(f"{name}: {', '.join(f'{each} {short(value)}' for each, value in measures.items())}")
            measured |= found
        return measured


def _views(ground: ConsoleGround, plan: ConsolePlan) -> dict[str, Measures]:
    ground.say(f"making {plan.topics:,} topics")
    ground.make_topics([f"many-{number:05}" for number in range(plan.topics)])
    topic = ground.searched
    ground.say(f"making {plan.groups:,} groups")
    eventually(lambda: _has_groups(ground, topic, plan.groups), "each group has an offset", within_s=ADMIN_TIMEOUT_S)
    measured: dict[str, Measures] = {}
    with ground.memory() as memory:
        for name, path in VIEWS.items():
            measured[name] = ground.view(path, plan.repetitions)
    return {**measured, "views: memory": memory}


def _has_groups(ground: ConsoleGround, topic: str, groups: int) -> bool:
    """Commit an offset for each group, and tell whether all are committed: a coordinator may still be loading."""
    futures: list[Future[Any]] = []
    for number in range(groups):
        wanted = [ConsumerGroupTopicPartitions(f"many-{number:04}", [TopicPartition(topic, 0, number)])]
        futures += ground.admin.alter_consumer_group_offsets(wanted, request_timeout=ADMIN_TIMEOUT_S).values()
    return all(each.error is None for future in futures for each in future.result().topic_partitions)


def _search(ground: ConsoleGround, plan: ConsolePlan) -> dict[str, Measures]:
    topic = ground.searched
    with ground.memory() as memory:
        measured = {"search": _searched(ground, topic, plan.messages)}
    if (kcat := shutil.which("kcat")) is None:
        ground.say("kcat is not installed, so there is nothing beside the search")
    else:
        measured["kcat-and-grep"] = _kcat(kcat, ground.bootstrap, plan.messages)
    return {**measured, "search: memory": memory}


def _searched(ground: ConsoleGround, topic: str, messages: int) -> Measures:
    before, began_s = cpu_time(ground.pid), time.perf_counter()
    next_pages: list[str | None] = [address(f"/topics/{topic}/messages", q=ABSENT, order="oldest")]
    while (path := next_pages[-1]) is not None:
        if len(next_pages) > PAGES_MAX:
            raise BenchmarkFailed(f"the search did not end within {PAGES_MAX} pages")
        ground.asked_ms(path, lambda answer: next_pages.append(_next_page(answer.text)))
    wall_s = time.perf_counter() - began_s
    cpu_s = (cpu_time(ground.pid) - before).total_s
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


_MEASURED: Final[Mapping[str, Callable[[ConsoleGround, ConsolePlan], dict[str, Measures]]]] = {
    "views": _views,
    "search": _search,
    "sql": lambda ground, plan: console_sql.measure(ground, plan.few, with_spark=plan.spark),
    "large": lambda ground, plan: console_contents.large(ground, plan.large_messages, plan.few),
    "hostile": lambda ground, plan: console_contents.hostile(ground, plan.hostile_messages, plan.few),
}
