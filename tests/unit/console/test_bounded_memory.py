"""What the console keeps is bounded, however many users, clusters, topics and pages pass through.

Every container that an object of the console makes for itself stands in `KEEPERS`: with what overfills it, or with
what it has an entry for. A new one fails the first test until it is there.
"""

import ast
import asyncio
import gc
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, cast

import httpx
import pytest
from confluent_kafka import Producer
from starlette.applications import Starlette

import ottla_console
from ottla_console.access import sign_in_brake
from ottla_console.access.audit_log import RECORDS_KEPT_MAX, AuditLog
from ottla_console.access.notices import NOTICES_MAX, Notices
from ottla_console.access.sessions import Sessions
from ottla_console.access.sign_in_brake import SignInBrake
from ottla_console.clusters import connect_workers
from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.cluster_kit import IDLE_ADMINS_MAX, IDLE_GROUP_CLIENTS_MAX, QUIET_LOGGER, ClusterKit
from ottla_console.clusters.connect_workers import IDLE_CLIENTS_MAX, ConnectWorkers
from ottla_console.clusters.consumer_surveys import TOPICS_MAX as SURVEYS_MAX
from ottla_console.clusters.consumer_surveys import ConsumerSurveys
from ottla_console.clusters.credentials import Credentials, RoleLogin
from ottla_console.clusters.event_log import EventLog
from ottla_console.clusters.movements import PLANS_MAX, Movements
from ottla_console.clusters.topic_reading import PAGE_RECORDS, Read
from ottla_console.clusters.watches import WATCHES_MAX, Watches
from ottla_console.config.cluster_settings import ClusterSettings
from ottla_console.config.roles import Role
from ottla_console.openid.sign_in_attempts import ATTEMPTS_MAX, SignInAttempts
from ottla_console.pages import messages
from ottla_console.pages.all_pages import VIEWS
from ottla_console.pages.routing import routes
from ottla_console.pages.visit import Console
from ottla_console.views.cluster_events import ActionDone
from ottla_console.views.lag_history import GROUPS_MAX, LagHistories
from ottla_console.views.topic_growth import TOPICS_MAX, TopicHistories
from ottla_console.views.topic_table import TopicRow
from ottla_core.topic_partition import TopicPartition
from ottla_operations.activity.activity import TopicActivity
from ottla_operations.cluster.cluster_view import ClusterView, PartitionView
from ottla_operations.cluster.movement_plan import MovementPlan
from ottla_operations.errors import OperationError
from ottla_operations.records.bounded_reading import Looked
from ottla_operations.records.record_line import Record
from tests.unit.console.test_roles import COOKIE, console

__all__ = ["console"]

SOURCES = Path(ottla_console.__file__).parent
CONTAINERS = {"dict", "list", "set", "deque", "OrderedDict", "defaultdict", "Counter", "array"}
SETTINGS = ClusterSettings(name="prod", bootstrap="127.0.0.1:1", connect_url="http://127.0.0.1:1")
PAGES: Final = 20
Sizes = tuple[int, int]
"""How many there are when many more have passed through, and how many there may be."""


class SilentThreads:
    """Threads in which nobody answers."""

    async def run(self, _call: Callable[[], object], *, within_s: float, subject: str) -> object:
        await asyncio.sleep(0)
        raise OperationError(f"{subject} did not answer within {within_s} s")


def silent_kit() -> ClusterKit:
    return ClusterKit(SETTINGS, None, cast("BoundedThreads", SilentThreads()))


def view_of(name: TopicPartition) -> ClusterView:
    return ClusterView("c", {}, {name: PartitionView(name, leader=1, replicas=(1,), in_sync=(1,))})


def many_sessions() -> Sizes:
    drawn = count()
    kept = Sessions(sessions_max=20, idle_s=1e9, lifetime_s=1e9, draw_id=lambda: str(next(drawn)))
    for number in range(100):
        kept.sign_in(None, {"prod": Credentials(f"user-{number}", "x")}, 0.0)
    return len(kept), 20


def many_failures() -> Sizes:
    brake = SignInBrake()
    for number in range(sign_in_brake.ENTRIES_MAX + 500):
        brake.begin("prod", f"user-{number}", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    return len(brake), 2 * sign_in_brake.ENTRIES_MAX


def many_notices() -> Sizes:
    notices = Notices()
    ids = [notices.put("told") for _ in range(NOTICES_MAX + 100)]
    return sum(notices.take(each) is not None for each in ids), NOTICES_MAX


def many_attempts() -> Sizes:
    drawn = count()
    attempts = SignInAttempts(lambda: str(next(drawn)))
    for _ in range(ATTEMPTS_MAX + 100):
        attempts.begin(None, cluster="prod", then="/", now_s=0.0)
    return len(attempts), ATTEMPTS_MAX


def many_groups() -> Sizes:
    histories = LagHistories()
    for number in range(GROUPS_MAX + 100):
        histories.note(f"group-{number}", 0.0, 1, None)
        histories.note(f"group-{number}", 5.0, 1, None)
    return sum(bool(histories.charts(f"group-{number}")) for number in range(GROUPS_MAX + 100)), GROUPS_MAX


def many_topics() -> Sizes:
    histories = TopicHistories()
    topics = [
        TopicActivity(
            topic=f"t-{number}", partitions=1, records_per_s=1.0, log_bytes=1, under_replicated=0, offline=0
        )
        for number in range(TOPICS_MAX + 100)
    ]
    for number in range(3):
        histories.note(10.0 * number, 10.0, topics[number * 50 :])
        histories.use(f"page-{number}")
    return histories.topics, TOPICS_MAX


def many_surveys() -> Sizes:
    async def survey() -> int:
        surveys = ConsumerSurveys(silent_kit())
        for number in range(5 * SURVEYS_MAX):
            await surveys.of(f"topic-{number}")
        return len(surveys)

    return asyncio.run(survey()), SURVEYS_MAX


def many_users() -> Sizes:
    async def come() -> int:
        watches = Watches(cast("BoundedThreads", SilentThreads()))
        for number in range(WATCHES_MAX + 50):
            watches.of(SETTINGS, Credentials(f"user-{number}", "x"))
        try:
            return len(watches)
        finally:
            watches.close()

    return asyncio.run(come()), WATCHES_MAX


def many_plans() -> Sizes:
    movements = Movements()
    view = view_of(TopicPartition("t", 0))
    for number in range(PLANS_MAX + 20):
        movements.keep(f"cluster-{number}", MovementPlan(view, {TopicPartition("t", 0): (number,)}, {}))
    return len(movements._plans), PLANS_MAX


def topics_that_come_and_go() -> Sizes:
    log = EventLog()
    for number in range(100):
        name = TopicPartition(f"topic-{number}", 0)
        view = view_of(name)
        log.note_view(view, 5.0 * number)
        log.note_settings({name.topic: {}}, {}, view, 5.0 * number)
        log.note_action(ActionDone("topic.create", name.topic, "ann", 5.0 * number))
    return len(log._topics), 1


def questions_at_a_time() -> Sizes:
    kit = silent_kit()

    def ask(depth: int) -> None:
        with kit.cluster_admin():
            if depth:
                ask(depth - 1)

    ask(5 * IDLE_ADMINS_MAX)
    try:
        return len(kit._idle_admins), IDLE_ADMINS_MAX
    finally:
        kit.close()


def questions_about_groups_at_a_time() -> Sizes:
    cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    settings = ClusterSettings(name="prod", bootstrap=f"{broker.host}:{broker.port}")
    kit = ClusterKit(settings, None, cast("BoundedThreads", SilentThreads()))

    def ask(depth: int) -> None:
        with kit.group_client():
            if depth:
                ask(depth - 1)

    ask(2 * IDLE_GROUP_CLIENTS_MAX)
    try:
        return len(kit._idle_group_clients), IDLE_GROUP_CLIENTS_MAX
    finally:
        kit.close()


def questions_to_workers_at_a_time() -> Sizes:
    workers = ConnectWorkers(SETTINGS)

    def ask(depth: int) -> None:
        workers.ask(lambda _: ask(depth - 1) if depth else None)

    ask(5 * IDLE_CLIENTS_MAX)
    try:
        return len(workers._idle), IDLE_CLIENTS_MAX
    finally:
        workers.close()


KEEPERS: dict[str, Callable[[], Sizes] | str] = {
    "Sessions._sessions": many_sessions,
    "_Counted._fast": many_failures,
    "_Counted._slowed": many_failures,
    "Notices._notices": many_notices,
    "SignInAttempts._attempts": many_attempts,
    "LagHistories._groups": many_groups,
    "TopicHistories._places": many_topics,
    "TopicHistories._free": "places of TopicHistories._places that were given up",
    "_Scale._records": "a number for each place of TopicHistories._places",
    "ConsumerSurveys._surveys": many_surveys,
    "Watches._watches": many_users,
    "Watches._kept": "clusters of the settings",
    "Movements._plans": many_plans,
    "Movements._running": "clusters of the settings",
    "Verifications._running": "clusters of the settings",
    "EventLog._topics": topics_that_come_and_go,
    "ClusterKit._idle_admins": questions_at_a_time,
    "ClusterKit._idle_group_clients": questions_about_groups_at_a_time,
    "ConnectWorkers._idle": questions_to_workers_at_a_time,
}


def containers(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Containers that objects make for themselves, empty at first, by class and attribute."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        made = (node for method in kind.body for node in ast.walk(method) if isinstance(method, ast.FunctionDef))
        for node in made:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets if value is not None and is_container(value) else ():
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                ):
                    assert value is not None
                    yield f"{kind.name}.{target.attr}", value


def is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in CONTAINERS
    return (isinstance(value, ast.Dict) and not value.keys) or (
        isinstance(value, ast.List | ast.Set) and not value.elts
    )


def has_length(value: ast.expr) -> bool:
    """Whether it is a deque with a length that has a name."""
    return isinstance(value, ast.Call) and any(
        each.arg == "maxlen" and isinstance(each.value, ast.Name) for each in value.keywords
    )


def test_every_container_that_lasts_is_known() -> None:
    found = [each for path in SOURCES.rglob("*.py") for each in containers(ast.parse(path.read_text()))]
    without_length = {name for name, value in found if not has_length(value)}
    assert without_length == set(KEEPERS)


@pytest.mark.parametrize(
    "overfill", sorted({each for each in KEEPERS.values() if callable(each)}, key=lambda each: each.__name__)
)
def test_what_is_kept_is_bounded_whatever_passes_through(
    overfill: Callable[[], Sizes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in_brake, "ENTRIES_MAX", 200)
    monkeypatch.setattr(connect_workers, "ANSWER_TIMEOUT_S", 1.0)
    kept, most = overfill()
    assert 0 < kept <= most


def test_the_audit_log_keeps_its_newest_records() -> None:
    log = AuditLog(None)

    async def fill() -> None:
        for number in range(RECORDS_KEPT_MAX + 10):
            await log.record("done", user="ann", cluster="prod", action="topic.set", target=str(number))

    logging.disable()
    try:
        asyncio.run(fill())
    finally:
        logging.disable(logging.NOTSET)
    assert len(log.newest) == RECORDS_KEPT_MAX


def test_users_who_come_leave_no_handlers_of_logs_behind() -> None:
    for _ in range(10):
        silent_kit().close()
    handlers = logging.getLogger(QUIET_LOGGER).handlers
    assert sum(isinstance(each, logging.NullHandler) for each in handlers) == 1


@contextmanager
def without_collection() -> Iterator[None]:
    """What is in circles stays while this lasts, so what is gone was freed with the page."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def records_there() -> int:
    return sum(type(each) is Record for each in gc.get_objects())


def test_pages_of_messages_free_what_they_have_read_with_the_page(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = TopicRow(
        name="t", partitions=1, replicas=1, records_per_s=None, log_bytes=None, under_replicated=0, offline=0
    )
    asked = count()

    async def topic_row(_visit: object) -> tuple[None, TopicRow]:
        return None, row

    async def read(*_: object) -> Read:
        next(asked)
        records = [
            Record(topic="t", partition=0, offset=each, timestamp=0, value=b"x" * 10_000)
            for each in range(PAGE_RECORDS)
        ]
        looked = Looked(records=records, place={}, seen=PAGE_RECORDS, seen_bytes=500_000, remaining=0, seconds=0.1)
        return Read(looked, {0: (0, PAGE_RECORDS)}, None)

    monkeypatch.setattr(messages, "topic_row", topic_row)
    monkeypatch.setattr(messages, "_read", read)
    with without_collection():
        before = records_there()
        answers = asyncio.run(browsing(console, "/clusters/prod/topics/t/messages", times=PAGES))
        after = records_there()
    assert [each.status_code for each in answers] == [200] * PAGES
    assert all("x" * 100 in each.text for each in answers)
    assert next(asked) == PAGES
    assert after - before < 2 * PAGE_RECORDS


async def browsing(console: Console, path: str, *, times: int) -> list[httpx.Response]:
    session = console.sessions.sign_in(None, {"prod": RoleLogin("ann", Role.VIEWER)}, time.monotonic())
    transport = httpx.ASGITransport(Starlette(routes=routes(console, VIEWS)))
    async with httpx.AsyncClient(transport=transport, base_url="http://console", cookies={COOKIE: session}) as client:
        return [await client.get(path) for _ in range(times)]
