"""What is wrong with a source's settings about transactions (DistributedHerder's two checks of KIP-618). Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from ottla_connect.config import WorkerConfig
from ottla_connect.task.settings.connector_settings import BOUNDARY_KEY, EXACTLY_ONCE_KEY
from ottla_connect.task.source.boundaries import Boundary
from ottla_sdk import JobTask, Problem, SourceConnector

REQUIRED = "required"


def exactly_once_problems(
    connector: SourceConnector[Any], settings: Mapping[str, str], worker: WorkerConfig
) -> Iterator[Problem]:
    """Return what keeps a configured connector from working as its settings want it on this worker."""
    if settings.get(EXACTLY_ONCE_KEY, "").strip().lower() == REQUIRED:
        yield from _required_problems(connector, worker)
    is_its_own = settings.get(BOUNDARY_KEY, "").strip().lower() == Boundary.CONNECTOR
    if is_its_own and not connector.can_define_transaction_boundaries():
        yield Problem(BOUNDARY_KEY, "the connector cannot say where transactions end; set poll or interval")


def _required_problems(connector: SourceConnector[Any], worker: WorkerConfig) -> Iterator[Problem]:
    if not worker.has_transactional_sources:
        yield Problem(
            EXACTLY_ONCE_KEY,
            "workers must have exactly.once.source.support=enabled for this; this one has "
            f"{worker.exactly_once_source_support}",
        )
    supports = connector.exactly_once_support()
    if issubclass(connector.task_class, JobTask):
        yield Problem(EXACTLY_ONCE_KEY, "the connector moves its data by itself, without transactions of the worker")
    elif supports is None:
        yield Problem(
            EXACTLY_ONCE_KEY,
            "the connector does not say whether it can have every record exactly once; see its documentation, and "
            "set requested if it can",
        )
    elif not supports:
        yield Problem(EXACTLY_ONCE_KEY, "the connector cannot have every record exactly once with these settings")
