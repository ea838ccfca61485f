"""Gathering facts, each source in a thread with a deadline, so that no dead process makes the command hang."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ottla.cluster.cluster_connection import cluster_admin
from ottla.cluster.cluster_view import BrokerView, ClusterView, Move
from ottla.connect.connect_client import ConnectClient
from ottla.doctor.findings import Facts
from ottla.doctor.hazards import ASKED
from ottla.errors import CommandError
from ottla.local.cluster_directory import ClusterDirectory, default_directory
from ottla.local.shutdown import look_at
from ottla_core.topic_partition import TopicPartition

WITHIN_S = 10.0
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
    disks = _disks(view, bootstrap, properties)
    copies = (
        within_deadline(lambda: _copies(view, bootstrap, properties), "settings and moves", silent) if view else None
    )
    settings, moves = copies or ({}, {})
    url = connect_url or (",".join(local.connect) if local is not None else "")
    statuses = within_deadline(lambda: _statuses(url), "the Connect workers", silent) if url else []
    return Facts(
        view=view, settings=settings, moves=moves, disks=disks, local=local, connectors=statuses or []
    ), silent


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


def _disks(
    view: ClusterView | None, bootstrap: str, properties: Sequence[str] | None
) -> dict[int, list[tuple[int, int]]]:
    """Return the room of each broker that answers, all asked at a time."""
    found: dict[int, list[tuple[int, int]]] = {}

    def ask(broker: BrokerView) -> None:
        def room() -> dict[int, list[tuple[int, int]]]:
            with cluster_admin(bootstrap, properties) as admin:
                return admin.disk_space([broker])

        found.update(within_deadline(room, f"broker {broker.id}", []) or {})

    threads = [
        threading.Thread(target=ask, args=(each,), daemon=True) for each in (view.brokers.values() if view else ())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(found)


def _statuses(url: str) -> list[dict[str, object]]:
    expanded = ConnectClient(url).get("/connectors", expand="status")
    return [each["status"] for _, each in sorted(expanded.items()) if "status" in each]
