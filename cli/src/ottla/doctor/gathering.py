"""Gathering facts, each source in a thread with a deadline, so that no dead process makes the command hang."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ottla.cluster.cluster_connection import cluster_admin
from ottla.cluster.cluster_view import BrokerView, ClusterView, LogDirectoryView, Move
from ottla.connect.connect_client import ConnectClient
from ottla.doctor.findings import Facts
from ottla.doctor.following import groups_behind, linked_places
from ottla.doctor.hazards import ASKED
from ottla.errors import CommandError
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.shutdown import look_at
from ottla_core.topic_partition import TopicPartition

WITHIN_S = 10.0
ROOM_FOR_OTHERS_S = 1.0
"""By how much brokers that do not answer are given up before the question to all of them is."""
Answer = TypeVar("Answer")


def gathered(
    bootstrap: str, properties: Sequence[str] | None, directory: Path | None, connect_url: str | None
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
    url = connect_url or (",".join(local.connect) if local is not None else "")
    statuses = within_deadline(lambda: _statuses(url), "the Connect workers", silent) if url else []
    facts = Facts(view=view, local=local, connectors=statuses or [])
    return facts if view is None else _of_brokers(facts, view, bootstrap, properties, silent), silent


def _of_brokers(
    facts: Facts, view: ClusterView, bootstrap: str, properties: Sequence[str] | None, silent: list[str]
) -> Facts:
    """Return facts with what brokers tell besides the view, all asked at a time."""
    answers: dict[str, Any] = {}

    def ask(name: str, source: str, question: Callable[[], Any]) -> None:
        answers[name] = within_deadline(question, source, silent)

    asked = [
        ("directories", "", lambda: _directories(view, bootstrap, properties)),
        ("copies", "settings and moves", lambda: _copies(view, bootstrap, properties)),
        ("groups", "groups", lambda: groups_behind(bootstrap, properties)),
        ("links", "links", lambda: linked_places(bootstrap, properties)),
        ("levels", "levels of features", lambda: _levels(bootstrap, properties)),
    ]
    in_parallel([partial(ask, *each) for each in asked])
    directories: dict[int, list[LogDirectoryView]] = answers["directories"] or {}
    settings, moves = answers["copies"] or ({}, {})
    levels, supported = answers["levels"] or ({}, {})
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
        levels=levels,
        supported_levels=supported,
    )


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


def _statuses(url: str) -> list[dict[str, object]]:
    expanded = ConnectClient(url).get("/connectors", expand="status")
    return [each["status"] for _, each in sorted(expanded.items()) if "status" in each]
