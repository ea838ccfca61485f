"""Asks the authorizer, and guards the broker against its errors, its answers that are no booleans, and slowness."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog

from ottla_core.acl_table import AclTable
from ottla_core.acls import AclBinding, AclOperation, ResourceKind
from ottla_core.principal import Principal
from ottla_sdk.broker import AccessRequest, Operation, ResourceType
from ottla_sdk.broker import Principal as AskingPrincipal

if TYPE_CHECKING:
    from ottla_sdk.broker import Authorizer

SLOW_SECONDS: Final = 0.1
"""An answer that takes longer is counted, as the broker does nothing else meanwhile."""
LOG_PAUSE_SECONDS: Final = 10.0
"""Between two lines of the log about failures, or about slow answers."""

Acls = Callable[[], Mapping[UUID, AclBinding]]

log = structlog.get_logger("authorizer")


class ClusterAccessLists:
    """The access control lists of the cluster's newest state, as authorizers see them.

    Args:
        acls: returns the bindings as they are now, by their ids; another object whenever they have changed.
    """

    def __init__(self, acls: Acls) -> None:
        self._acls = acls
        self._known: Mapping[UUID, AclBinding] | None = None
        self._made = AclTable(())

    def decide(self, request: AccessRequest) -> bool | None:
        """Return whether they allow a request; None if none is for its resource."""
        decision = self._table().decide(
            _principal(request.principal),
            request.host,
            AclOperation(request.operation),
            ResourceKind(request.resource_type),
            request.resource_name,
        )
        return decision.is_allowed if decision.found_any else None

    def allow_any(self, request: AccessRequest) -> bool:
        """Return whether they allow the operation on any resource of the type that there might be."""
        return self._table().allows_some(
            _principal(request.principal),
            request.host,
            AclOperation(request.operation),
            ResourceKind(request.resource_type),
        )

    def _table(self) -> AclTable:
        acls = self._acls()
        if acls is not self._known:
            self._known, self._made = acls, AclTable(acls.values())
        return self._made


class AnswersForATime:
    """What remembered answers stand on where they hold for a time: another object when they hold no longer.

    Args:
        acls: as for `ClusterAccessLists`; other ones end the time as well.
        hold_ms: for how long they hold; 0: not at all.
        monotonic_s: the clock.
    """

    def __init__(self, acls: Acls, hold_ms: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._acls = acls
        self._hold_s = hold_ms / 1000
        self._monotonic_s = monotonic_s
        self._known: object = None
        self._basis = object()
        self._ends_at_s = 0.0

    def __call__(self) -> object:
        """Return the object of now."""
        acls, now_s = self._acls(), self._monotonic_s()
        if now_s >= self._ends_at_s or acls is not self._known:
            self._known, self._basis, self._ends_at_s = acls, object(), now_s + self._hold_s
        return self._basis


@dataclass(slots=True)
class AuthorizerCounts:
    """What went wrong with answers.

    Attributes:
        failures: errors that the authorizer has raised, and answers that are no booleans.
        slow: answers that took longer than `SLOW_SECONDS`.
    """

    failures: int = 0
    slow: int = 0


class GuardedAuthorizer:
    """An authorizer, and a guard against what it does.

    Args:
        authorizer: started.
        acls: of the cluster.
    """

    def __init__(self, authorizer: "Authorizer[Any]", acls: Acls) -> None:
        self.counts = AuthorizerCounts()
        self.uses_access_lists = authorizer.uses_access_lists
        hold_ms = authorizer.answers_hold_ms
        self.basis: Callable[[], object] = acls if hold_ms is None else AnswersForATime(acls, hold_ms)
        self._authorizer = authorizer
        self._logs_again_at_s = 0.0

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceKind, name: str
    ) -> bool | None:
        """Return whether a client may do something; None if the authorizer has failed, which is a refusal."""
        return self._asked(self._authorizer.authorize, _request(principal, host, operation, kind, name))

    def decide_any(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceKind) -> bool:
        """Return whether a client may do something with any resource of a kind."""
        return bool(self._asked(self._authorizer.authorize_any, _request(principal, host, operation, kind, "")))

    def allows_everything(self, principal: Principal) -> bool:
        """Return whether a principal may do everything."""
        asking = AskingPrincipal(principal.kind, principal.name)
        return bool(self._asked(self._authorizer.allows_everything, asking))

    def _asked(self, method: Callable[[Any], object], question: object) -> bool | None:
        began_s = time.perf_counter()
        try:
            answer = method(question)
        except Exception as error:  # noqa: BLE001 - whatever a plugin does
            self._note_failure(f"{type(error).__name__} was raised", question, error)
            return None
        took_s = time.perf_counter() - began_s
        if took_s > SLOW_SECONDS:
            self.counts.slow += 1
            if self._logs_now():
                log.warning("the authorizer holds up the broker", took_s=round(took_s, 3), slow=self.counts.slow)
        if answer is True or answer is False:
            return answer
        self._note_failure(f"the answer was {type(answer).__name__}, neither True nor False", question, None)
        return None

    def _note_failure(self, problem: str, question: object, error: Exception | None) -> None:
        self.counts.failures += 1
        if self._logs_now():
            log.error(
                "the authorizer has failed, which counts as a refusal",
                problem=problem,
                question=str(question),
                failures=self.counts.failures,
                exc_info=error,
            )

    def _logs_now(self) -> bool:
        now_s = time.monotonic()
        if now_s < self._logs_again_at_s:
            return False
        self._logs_again_at_s = now_s + LOG_PAUSE_SECONDS
        return True


def _principal(principal: AskingPrincipal) -> Principal:
    return Principal(principal.kind, principal.name)


def _request(
    principal: Principal, host: str, operation: AclOperation, kind: ResourceKind, name: str
) -> AccessRequest:
    asking = AskingPrincipal(principal.kind, principal.name)
    return AccessRequest(asking, host, Operation(operation), ResourceType(kind), name)
