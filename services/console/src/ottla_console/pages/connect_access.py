"""How pages ask Connect's workers, and have them change something."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla_console.access.roles import role_of_action, why_not
from ottla_console.clusters.cluster_kit import ANSWER_TIMEOUT_S
from ottla_console.clusters.connect_workers import CHANGED_WITHIN_S
from ottla_console.pages.visit import NotFound, Visit
from ottla_operations.workers.connect_client import ConnectClient, connector_path
from ottla_operations.workers.worker_client import Refused

NOT_THERE: Final = 404
CHANGE: Final = "connector.change"
"""Every action with connectors takes the same role."""
Result = TypeVar("Result")
Expanded = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as its workers tell of it: its settings, its type, its state."""

    name: str
    type: str
    config: Mapping[str, str]
    status: Mapping[str, Any]

    @property
    def is_stopped(self) -> bool:
        """Whether its offsets can be changed."""
        return bool(self.status["connector"]["state"] == "STOPPED")


async def ask_workers(
    visit: Visit, question: Callable[[ConnectClient], Result], *, within_s: float = ANSWER_TIMEOUT_S
) -> Result:
    """Return the workers' answer.

    Raises:
        NotFound: there is no such connector, plugin, or task.
        OperationError: they refuse, cannot be reached, or do not answer in time.
    """
    try:
        return await visit.ask(lambda kit: kit.connect.ask(question), within_s=within_s)
    except Refused as refusal:
        if refusal.status == NOT_THERE:
            raise NotFound(str(refusal)) from None
        raise


async def all_connectors(visit: Visit) -> Expanded:
    """Return the status and the settings of every connector, by name; errors as those of `ask_workers`."""

    def question(client: ConnectClient) -> Expanded:
        # `expand` twice in one address is not what the client's parameters can say.
        statuses = client.get("/connectors", expand="status")
        infos = client.get("/connectors", expand="info")
        return {name: {**each, **infos.get(name, {})} for name, each in statuses.items()}

    return await ask_workers(visit, question)


async def change_by_workers(
    visit: Visit,
    name: str,
    target: str,
    effect: Callable[[ConnectClient], Result],
    *,
    needed: str | None = None,
    **details: Any,
) -> Result:
    """Have the workers change something, guarded and audited; arguments and errors as those of `Visit.act`."""
    return await visit.act(
        name,
        target,
        lambda: ask_workers(visit, effect, within_s=CHANGED_WITHIN_S),
        needed=needed,
        forbidden=why_forbidden(visit, name),
        **details,
    )


def why_forbidden(visit: Visit, action: str) -> str | None:
    """Return why connectors of this cluster are not changed by the console for this user; None where they may be."""
    if visit.cluster.connect_changes == "allowed":
        return None
    if visit.cluster.connect_changes == "roles":
        # Also where a role limits nothing else: the workers know no access control lists.
        credentials = visit.credentials
        assert credentials is not None, "with roles, users sign in"
        return why_not(credentials.user, credentials.role, role_of_action(action), action)
    return (
        f"connectors of {visit.cluster.name} are not changed by the console, as its setting "
        f"cluster.{visit.cluster.name}.connect.changes says"
    )


def may_change(visit: Visit) -> bool:
    """Whether pages offer to change connectors."""
    return visit.may(CHANGE) and why_forbidden(visit, CHANGE) is None


async def connector_of(visit: Visit) -> Connector:
    """Return the connector that the address names.

    Raises:
        NotFound: there is none.
        OperationError: as `ask_workers`.
    """
    name = visit.request.path_params["connector"]
    return await ask_workers(visit, lambda client: look(client, name))


def look(client: ConnectClient, name: str) -> Connector:
    """Return a connector, in a thread; errors as those of the client."""
    info, status = client.get(connector_path(name)), client.get(connector_path(name, "status"))
    return Connector(name=name, type=str(info.get("type", "unknown")), config=dict(info["config"]), status=status)
