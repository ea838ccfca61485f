"""The one way to change something: `Actions.carry_out`.

It asks whether the console is read-only, whether the role and the settings allow it, whether the form was confirmed,
has the effect, and writes the audit record in each case. What the user may do, the cluster decides, as the effect
goes over the user's own connections; or the user's role, where these are made with the console's credentials.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla_console.access.audit_log import AuditLog, Outcome
from ottla_operations.errors import OperationError

Result = TypeVar("Result")


class Refused(OperationError):
    """The console itself does not carry out an action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What somebody wants to change.

    Attributes:
        name: what is done, such as ``topic.delete``.
        target: to what.
        user: who; empty where nobody has signed in.
        cluster: where.
        confirmation: what was typed to confirm; None where the form asks for nothing.
        needed: what has to be typed.
        forbidden: why the console's settings do not allow it to this user; None where they do.
        details: more for the audit record; no secrets.
    """

    name: str
    target: str
    user: str
    cluster: str
    confirmation: str | None = None
    needed: str | None = None
    forbidden: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


class Actions:
    """Carries out what changes something.

    Args:
        audit: where it is recorded.
        read_only: whether nothing may be changed.
    """

    def __init__(self, audit: AuditLog, *, read_only: bool) -> None:
        self._audit = audit
        self.read_only = read_only

    async def carry_out(self, action: Action, effect: Callable[[], Awaitable[Result]]) -> Result:
        """Return what the effect returns.

        Raises:
            Refused: the console is read-only, or what was typed does not confirm it; there was no effect.
            OperationError: the effect failed.
        """
        said = {"user": action.user, "cluster": action.cluster, "action": action.name, "target": action.target}
        if problem := self._problem(action):
            await self._audit.record("refused", **said, reason=problem, **action.details)
            raise Refused(problem)
        try:
            result = await effect()
        except OperationError as error:
            await self._audit.record("failed", **said, reason=str(error), **action.details)
            raise
        except BaseException as error:  # also a request that is given up: its effect may come all the same
            await self._audit.record("failed", **said, reason=type(error).__name__, **action.details)
            raise
        await self._audit.record("done", **said, **action.details)
        return result

    def newest(self, cluster: str) -> list[dict[str, Any]]:
        """Return the newest audit records of a cluster, the newest first."""
        return [each for each in reversed(self._audit.newest) if each["cluster"] == cluster]

    async def refuse(self, action: Action) -> None:
        """Record that an action was refused before it was known what it would be."""
        said = {"user": action.user, "cluster": action.cluster, "action": action.name, "target": action.target}
        await self._audit.record("refused", **said, reason=action.forbidden, **action.details)

    async def note_sign_in(self, cluster: str, user: str, *, problem: str | None = None, **details: Any) -> None:
        """Record that somebody has signed in, or that the cluster has refused it."""
        details = details if problem is None else {**details, "reason": problem}
        outcome: Outcome = "done" if problem is None else "refused"
        await self._audit.record(outcome, user=user, cluster=cluster, action="sign-in", target=cluster, **details)

    def _problem(self, action: Action) -> str | None:
        if self.read_only:
            return "the console is read-only (its setting read.only); nothing was changed"
        if action.forbidden is not None:
            return f"{action.forbidden}; nothing was changed"
        if action.needed is not None and action.confirmation != action.needed:
            return f"nothing was changed: to confirm, type {action.needed}"
        return None
