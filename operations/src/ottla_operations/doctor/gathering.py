"""Gathering facts, each source in a thread with a deadline, so that no dead process makes the command hang."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from ottla_core.topic_partition import TopicPartition
from ottla_operations.cluster.broker_connections import UnsupportedApi
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import BrokerView, ClusterView, LogDirectoryView, Move, QuorumView
from ottla_operations.doctor.clocks import clocks_of, quorum_and_clock
from ottla_operations.doctor.etcd_members import EtcdMember, ask_member
from ottla_operations.doctor.findings import Clock, Facts
from ottla_operations.doctor.following import groups_behind, linked_places
from ottla_operations.doctor.risks import ASKED
from ottla_operations.errors import OperationError
from ottla_operations.transactions.transaction_admin import hanging_transactions
from ottla_operations.transactions.transaction_view import OpenTransaction
from ottla_operations.workers.connect_client import ConnectClient
from ottla_operations.workers.mirror_client import MirrorClient

WITHIN_S = 10.0
ROOM_FOR_OTHERS_S = 1.0
"""By how much brokers that do not answer are given up before the question to all of them is."""
TRANSACTION_TIMEOUT_MAX_MS = 15 * 60 * 1000
"""What `transaction.max.timeout.ms` is unless it is set."""
GROUPS_TOPIC = "__consumer_offsets"
Answer = TypeVar("Answer")
Source = tuple[str, str, Callable[[], Any]]
"""The field of `Facts` that it fills, what it is in a message, and the question."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where to ask what stands beside the brokers, as URLs separated by commas; a local cluster tells its own.

    Attributes:
        connect: of Connect workers.
        mirror: of mirror workers.
        etcd: of etcd's members.
        rest_config: file with what a local cluster's workers are shown; None for what the environment names.
    """

    connect: str | None = None
    mirror: str | None = None
    etcd: str | None = None
    rest_config: str | None = None


def facts_of(bootstrap: str, config: Mapping[str, Any], addresses: Addresses) -> tuple[Facts, list[str]]:
    """Return what is known of a cluster, and which sources did not tell.

    Args:
        bootstrap: addresses of brokers.
        config: settings of a client, under librdkafka's names.
        addresses: of what stands beside the brokers.
    """
    silent: list[str] = []
    view = view_of(bootstrap, config, silent)
    facts = beside_brokers(Facts(view=view), addresses, silent)
    return facts if view is None else of_brokers(facts, view, bootstrap, config, silent), silent


def view_of(bootstrap: str, config: Mapping[str, Any], silent: list[str]) -> ClusterView | None:
    """Return brokers and partitions; None, with a line in `silent`, if nobody tells."""
    return within_deadline(lambda: _view(bootstrap, config), "the brokers", silent)


def beside_brokers(facts: Facts, addresses: Addresses, silent: list[str], others: Sequence[Source] = ()) -> Facts:
    """Return facts with what workers, etcd, the clocks of a local cluster's processes, and other sources tell."""
    processes = facts.local.processes if facts.local is not None else ()
    not_brokers = [each for each in processes if each.role != "broker"]  # brokers tell the time by Kafka's protocol
    asked: list[Source] = [("clocks", "clocks", lambda: clocks_of(not_brokers)), *others]
    file = addresses.rest_config
    if connect := addresses.connect:
        asked.append(("connectors", "the Connect workers", lambda: _statuses(ConnectClient(connect, file))))
    if mirror := addresses.mirror:
        asked.append(("flows", "the mirror workers", lambda: MirrorClient(mirror, file).get("/flows")))
    if etcd := addresses.etcd:
        asked.append(("etcd", "etcd", lambda: _etcd_members(etcd)))
    answers = all_answers(asked, silent)
    return replace(facts, **{name: answer for name, answer in answers.items() if answer is not None})


def of_brokers(
    facts: Facts, view: ClusterView, bootstrap: str, config: Mapping[str, Any], silent: list[str]
) -> Facts:
    """Return facts with what brokers tell besides the view, all asked at a time."""
    asked = [
        ("directories", "", lambda: _directories(view, bootstrap, config)),
        ("copies", "settings and moves", lambda: _copies(view, bootstrap, config)),
        ("groups", "groups", lambda: groups_behind(bootstrap, config)),
        ("links", "links", lambda: linked_places(bootstrap, config)),
        ("hanging", "transactions", lambda: _hanging(view, bootstrap, config)),
        ("levels", "levels of features", lambda: _levels(bootstrap, config)),
        ("has_controller", "the controllers", lambda: _has_controller(bootstrap, config)),
        ("has_coordinators", "the group coordinators", lambda: _has_coordinators(view, bootstrap, config)),
        ("quorums", "", lambda: _quorums(view, bootstrap, config)),
    ]
    answers = all_answers(asked, silent)
    directories: dict[int, list[LogDirectoryView]] = answers["directories"] or {}
    settings, moves = answers["copies"] or ({}, {})
    levels, supported = answers["levels"] or ({}, {})
    quorums: dict[int, tuple[QuorumView, Clock | None]] = answers["quorums"] or {}
    failed = {broker: [each.path for each in those if each.has_failed] for broker, those in directories.items()}
    return replace(
        facts,
        settings=settings,
        moves=moves,
        disks={
            broker: [(each.free_bytes, each.size_bytes) for each in those] for broker, those in directories.items()
        },
        failed_directories={broker: paths for broker, paths in failed.items() if paths},
        groups=answers["groups"] or [],
        links=answers["links"] or [],
        hanging=answers["hanging"] or [],
        levels=levels,
        supported_levels=supported,
        clocks=[*facts.clocks, *(clock for _, clock in quorums.values() if clock is not None)],
        has_controller=answers["has_controller"],
        has_coordinators=answers["has_coordinators"],
        out_of_date={broker: told.is_out_of_date for broker, (told, _) in quorums.items()},
    )


def all_answers(asked: Sequence[Source], silent: list[str]) -> dict[str, Any]:
    """Ask several sources at a time, and return their answers by the names given first; None without one."""
    answers: dict[str, Any] = {}

    def ask(name: str, source: str, question: Callable[[], Any]) -> None:
        answers[name] = within_deadline(question, source, silent)

    in_parallel([partial(ask, *each) for each in asked])
    return answers


def in_parallel(calls: Sequence[Callable[[], None]]) -> None:
    """Make calls, each of which has a deadline, at the same time."""
    threads = [threading.Thread(target=each, daemon=True) for each in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def within_deadline(
    ask: Callable[[], Answer], source: str, silent: list[str], *, within_s: float = WITHIN_S
) -> Answer | None:
    """Return a source's answer; None, with a line in `silent`, if it has none within so many seconds."""
    answers: list[Answer] = []
    problems: list[str] = []

    def run() -> None:
        try:
            answers.append(ask())
        except OperationError as error:
            problems.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(within_s)
    if answers:
        return answers[0]
    silent.append(f"{source}: {problems[0] if problems else f'no answer within {within_s:.0f} s'}")
    return None


def _view(bootstrap: str, config: Mapping[str, Any]) -> ClusterView:
    with ClusterAdmin(bootstrap, config) as admin:
        return admin.view()


def _copies(
    view: ClusterView, bootstrap: str, config: Mapping[str, Any]
) -> tuple[dict[str, dict[str, str]], dict[TopicPartition, Move]]:
    with ClusterAdmin(bootstrap, config) as admin:
        return admin.topic_settings(sorted(view.topics), ASKED), admin.moves()


def _levels(
    bootstrap: str, config: Mapping[str, Any]
) -> tuple[dict[str, int], dict[int, dict[str, tuple[int, int]]]]:
    with ClusterAdmin(bootstrap, config) as admin:
        return admin.features()


def _hanging(view: ClusterView, bootstrap: str, config: Mapping[str, Any]) -> list[OpenTransaction]:
    """Return the transactions that hang; of clusters that cannot be asked for transactions there are none."""
    with ClusterAdmin(bootstrap, config) as admin:
        try:
            return hanging_transactions(admin, view, view.partitions, timeout_max_ms=TRANSACTION_TIMEOUT_MAX_MS)
        except UnsupportedApi:
            return []


def _has_controller(bootstrap: str, config: Mapping[str, Any]) -> bool | None:
    with ClusterAdmin(bootstrap, config) as admin:
        return admin.is_controlled()


def _has_coordinators(view: ClusterView, bootstrap: str, config: Mapping[str, Any]) -> bool | None:
    """Return whether groups have coordinators, where there have ever been groups."""
    if GROUPS_TOPIC not in view.topics:
        return None
    with ClusterAdmin(bootstrap, config) as admin:
        return admin.coordinates_groups()


def _quorums(
    view: ClusterView, bootstrap: str, config: Mapping[str, Any]
) -> dict[int, tuple[QuorumView, Clock | None]]:
    """Return what each broker tells of the controllers, and its clock; without those that do not tell."""
    found: dict[int, tuple[QuorumView, Clock | None]] = {}

    def ask(broker: BrokerView) -> None:
        with ClusterAdmin(bootstrap, config) as admin:
            found[broker.id] = quorum_and_clock(admin, broker)

    def asked_in_time(broker: BrokerView) -> None:
        within_deadline(lambda: ask(broker), "", [], within_s=WITHIN_S - ROOM_FOR_OTHERS_S)

    in_parallel([partial(asked_in_time, each) for each in view.brokers.values()])
    return dict(found)


def _etcd_members(urls: str) -> list[EtcdMember]:
    """Return what each member of etcd tells, asked at a time, in the order of their URLs.

    Raises:
        OperationError: a URL is not an etcd's.
    """
    asked = [url.strip() for url in urls.split(",") if url.strip()]
    with ThreadPoolExecutor(max(1, len(asked))) as threads:
        return list(threads.map(ask_member, asked))


def _directories(view: ClusterView, bootstrap: str, config: Mapping[str, Any]) -> dict[int, list[LogDirectoryView]]:
    """Return the log directories of each broker that answers."""
    found: dict[int, list[LogDirectoryView]] = {}

    def ask(broker: BrokerView) -> None:
        def directories() -> dict[int, list[LogDirectoryView]]:
            with ClusterAdmin(bootstrap, config) as admin:
                return admin.log_directories([broker])

        within_s = WITHIN_S - ROOM_FOR_OTHERS_S
        found.update(within_deadline(directories, f"broker {broker.id}", [], within_s=within_s) or {})

    in_parallel([partial(ask, each) for each in view.brokers.values()])
    return dict(found)


def _statuses(client: ConnectClient) -> list[dict[str, object]]:
    expanded = client.get("/connectors", expand="status")
    return [each["status"] for _, each in sorted(expanded.items()) if "status" in each]
