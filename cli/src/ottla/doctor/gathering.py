"""Gathering facts, each source in a thread with a deadline, so that no dead process makes the command hang."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ottla.cluster.broker_connections import UnsupportedApi
from ottla.cluster.cluster_connection import cluster_admin
from ottla.cluster.cluster_view import BrokerView, ClusterView, LogDirectoryView, Move
from ottla.connect.connect_client import ConnectClient
from ottla.doctor.clocks import clock_of_broker, clocks_of
from ottla.doctor.etcd_members import EtcdMember, ask_member
from ottla.doctor.findings import Clock, Facts
from ottla.doctor.following import groups_behind, linked_places
from ottla.doctor.risks import ASKED
from ottla.errors import CommandError
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.cluster_report import ClusterReport
from ottla.local.secure_plan import TLS_FOLDER
from ottla.local.shutdown import look_at
from ottla.mirror.mirror_client import MirrorClient
from ottla.transactions.transaction_admin import hanging_transactions
from ottla.transactions.transaction_view import OpenTransaction
from ottla_core.topic_partition import TopicPartition

WITHIN_S = 10.0
ENDS_SOON = timedelta(days=30)
ROOM_FOR_OTHERS_S = 1.0
"""By how much brokers that do not answer are given up before the question to all of them is."""
TRANSACTION_TIMEOUT_MAX_MS = 15 * 60 * 1000
"""What `transaction.max.timeout.ms` is unless it is set."""
GROUPS_TOPIC = "__consumer_offsets"
Answer = TypeVar("Answer")


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


def gathered(
    bootstrap: str, properties: Sequence[str] | None, directory: Path | None, addresses: Addresses
) -> tuple[Facts, list[str]]:
    """Return what is known of a cluster, and which sources did not tell."""
    silent: list[str] = []
    local = look_at(ClusterDirectory(directory or default_directory()))
    if local is not None and directory is None and local.bootstrap != bootstrap:
        local = None
    bootstrap = local.bootstrap if local is not None else bootstrap
    view = within_deadline(lambda: _view(bootstrap, properties), "the brokers", silent)
    if local is not None and local.state == "stopped":
        if view is None:
            return Facts(local=local), []
        local = None  # another cluster has its address
    facts = _beside_brokers(Facts(view=view, local=local), _known(addresses, local), silent)
    return facts if view is None else _of_brokers(facts, view, bootstrap, properties, silent), silent


def _known(addresses: Addresses, local: ClusterReport | None) -> Addresses:
    """Return the addresses with those of a local cluster where none are named."""
    if local is None:
        return addresses
    return Addresses(
        connect=addresses.connect or ",".join(local.connect),
        mirror=addresses.mirror or ",".join(local.mirror),
        etcd=addresses.etcd or ",".join(_pages_of_etcd(local)),
        rest_config=None if addresses.connect or addresses.mirror else local.rest_config,
    )


def _pages_of_etcd(local: ClusterReport) -> Sequence[str]:
    """Return where etcd's members show metrics and health; not at a port that asks for certificates."""
    if not local.is_secure:
        return local.etcd
    return [each.metrics.removesuffix("/metrics") for each in local.processes if each.role == "etcd" and each.metrics]


def _days_left(folder: Path) -> dict[str, int]:
    """Return how long those certificates are valid that end soon."""
    from ottla.secure.certificate_folder import CertificateFolder  # noqa: PLC0415 - imports cryptography

    now = datetime.now(UTC)
    left = {each.holder: each.ends - now for each in CertificateFolder(folder).facts()}
    return {holder: each.days for holder, each in left.items() if each < ENDS_SOON}


def _beside_brokers(facts: Facts, addresses: Addresses, silent: list[str]) -> Facts:
    """Return facts with what workers, etcd and the clocks of a local cluster's processes tell."""
    processes = facts.local.processes if facts.local is not None else ()
    others = [each for each in processes if each.role != "broker"]  # brokers tell the time by Kafka's protocol
    asked: list[tuple[str, str, Callable[[], Any]]] = [("clocks", "clocks", lambda: clocks_of(others))]
    if facts.local is not None and facts.local.is_secure:
        folder = Path(facts.local.directory) / TLS_FOLDER
        asked.append(("days_left", "certificates", lambda: _days_left(folder)))
    file = addresses.rest_config
    if connect := addresses.connect:
        asked.append(("connectors", "the Connect workers", lambda: _statuses(ConnectClient(connect, file))))
    if mirror := addresses.mirror:
        asked.append(("flows", "the mirror workers", lambda: MirrorClient(mirror, file).get("/flows")))
    if etcd := addresses.etcd:
        asked.append(("etcd", "etcd", lambda: _etcd_members(etcd)))
    answers = all_answers(asked, silent)
    return replace(facts, **{name: answer for name, answer in answers.items() if answer is not None})


def _of_brokers(
    facts: Facts, view: ClusterView, bootstrap: str, properties: Sequence[str] | None, silent: list[str]
) -> Facts:
    """Return facts with what brokers tell besides the view, all asked at a time."""
    asked = [
        ("directories", "", lambda: _directories(view, bootstrap, properties)),
        ("copies", "settings and moves", lambda: _copies(view, bootstrap, properties)),
        ("groups", "groups", lambda: groups_behind(bootstrap, properties)),
        ("links", "links", lambda: linked_places(bootstrap, properties)),
        ("hanging", "transactions", lambda: _hanging(view, bootstrap, properties)),
        ("levels", "levels of features", lambda: _levels(bootstrap, properties)),
        ("deciders", "controllers and coordinators", lambda: _deciders(view, bootstrap, properties)),
        ("clocks", "", lambda: _broker_clocks(view, bootstrap, properties)),
    ]
    answers = all_answers(asked, silent)
    directories: dict[int, list[LogDirectoryView]] = answers["directories"] or {}
    settings, moves = answers["copies"] or ({}, {})
    levels, supported = answers["levels"] or ({}, {})
    has_controller, has_coordinators = answers["deciders"] or (None, None)
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
        clocks=[*facts.clocks, *(answers["clocks"] or [])],
        has_controller=has_controller,
        has_coordinators=has_coordinators,
    )


def all_answers(asked: Sequence[tuple[str, str, Callable[[], Any]]], silent: list[str]) -> dict[str, Any]:
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
        except CommandError as error:
            problems.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(within_s)
    if answers:
        return answers[0]
    silent.append(f"{source}: {problems[0] if problems else f'no answer within {within_s:.0f} s'}")
    return None


def _view(bootstrap: str, properties: Sequence[str] | None) -> ClusterView:
    with cluster_admin(bootstrap, properties) as admin:
        return admin.view()


def _copies(
    view: ClusterView, bootstrap: str, properties: Sequence[str] | None
) -> tuple[dict[str, dict[str, str]], dict[TopicPartition, Move]]:
    with cluster_admin(bootstrap, properties) as admin:
        return admin.topic_settings(sorted(view.topics), ASKED), admin.moves()


def _levels(
    bootstrap: str, properties: Sequence[str] | None
) -> tuple[dict[str, int], dict[int, dict[str, tuple[int, int]]]]:
    with cluster_admin(bootstrap, properties) as admin:
        return admin.features()


def _hanging(view: ClusterView, bootstrap: str, properties: Sequence[str] | None) -> list[OpenTransaction]:
    """Return the transactions that hang; of clusters that cannot be asked for transactions there are none."""
    with cluster_admin(bootstrap, properties) as admin:
        try:
            return hanging_transactions(admin, view, view.partitions, timeout_max_ms=TRANSACTION_TIMEOUT_MAX_MS)
        except UnsupportedApi:
            return []


def _deciders(view: ClusterView, bootstrap: str, properties: Sequence[str] | None) -> tuple[bool | None, bool | None]:
    """Return whether a controller leads, and whether groups have coordinators, where there have ever been groups."""
    with cluster_admin(bootstrap, properties) as admin:
        leads = admin.is_controlled()
        return leads, admin.coordinates_groups() if GROUPS_TOPIC in view.topics else None


def _broker_clocks(view: ClusterView, bootstrap: str, properties: Sequence[str] | None) -> list[Clock]:
    """Return the clocks of the brokers that tell."""
    found: list[Clock] = []

    def ask(broker: BrokerView) -> None:
        with cluster_admin(bootstrap, properties) as admin:
            clock = clock_of_broker(admin, broker)
        if clock is not None:
            found.append(clock)

    def asked_in_time(broker: BrokerView) -> None:
        within_deadline(lambda: ask(broker), "", [], within_s=WITHIN_S - ROOM_FOR_OTHERS_S)

    in_parallel([partial(asked_in_time, each) for each in view.brokers.values()])
    return list(found)


def _etcd_members(urls: str) -> list[EtcdMember]:
    """Return what each member of etcd tells, asked at a time, in the order of their URLs.

    Raises:
        CommandError: a URL is not an etcd's.
    """
    asked = [url.strip() for url in urls.split(",") if url.strip()]
    with ThreadPoolExecutor(max(1, len(asked))) as threads:
        return list(threads.map(ask_member, asked))


def _directories(
    view: ClusterView, bootstrap: str, properties: Sequence[str] | None
) -> dict[int, list[LogDirectoryView]]:
    """Return the log directories of each broker that answers."""
    found: dict[int, list[LogDirectoryView]] = {}

    def ask(broker: BrokerView) -> None:
        def directories() -> dict[int, list[LogDirectoryView]]:
            with cluster_admin(bootstrap, properties) as admin:
                return admin.log_directories([broker])

        within_s = WITHIN_S - ROOM_FOR_OTHERS_S
        found.update(within_deadline(directories, f"broker {broker.id}", [], within_s=within_s) or {})

    in_parallel([partial(ask, each) for each in view.brokers.values()])
    return dict(found)


def _statuses(client: ConnectClient) -> list[dict[str, object]]:
    expanded = client.get("/connectors", expand="status")
    return [each["status"] for _, each in sorted(expanded.items()) if "status" in each]
