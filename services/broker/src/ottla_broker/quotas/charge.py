"""What one request costs its client, while it is handled and any client has a quota."""

from collections.abc import Callable, Coroutine, Generator
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

from ottla_broker.quotas.client_quotas import Client, ClientQuotas
from ottla_core.slices import Unfinished
from ottla_core.wire.messages import RequestHeader

T = TypeVar("T")


class Charge:
    """The cost of the request that is being handled, which stands for those since the one that was measured before.

    The time that counts ends when the response is encoded, so that it can say for how long the client is throttled,
    or else when the handler returns. What a handler goes on with later counts in its steps.

    Attributes:
        header: of the request.
        is_exempt: whether the time does not count, as for replicas.
    """

    __slots__ = ("_began_ns", "_connection", "_quotas", "_weight", "header", "is_exempt")

    def __init__(self, quotas: ClientQuotas, connection: Client, header: RequestHeader) -> None:
        self._quotas = quotas
        self._connection = connection
        self._began_ns = monotonic_ns()
        self._weight = quotas.weigh_time(connection, header.client_id, self._began_ns)
        self.header = header
        self.is_exempt = False

    def settle(self) -> None:
        """Count the time so far, once."""
        if self.is_exempt:
            return
        self.is_exempt = True
        self._note(monotonic_ns() - self._began_ns)

    def follow(self, outcome: T) -> T:
        """Have the steps count in which a handler goes on; return what to await in place of its outcome."""
        if isinstance(outcome, Unfinished):
            outcome.wrap(lambda work: TimedSteps(work, self._note))
        elif isinstance(outcome, Coroutine):
            return TimedSteps(outcome, self._note)  # type: ignore[return-value]
        return outcome

    def _note(self, used_ns: int) -> None:
        self._quotas.note_time(self._connection, self.header.client_id, used_ns * self._weight)


class NoCharge(Charge):
    """The cost of a request before a login: nobody's, as it is not known yet who the client is."""

    __slots__ = ()

    def __init__(self, header: RequestHeader) -> None:
        self.header = header
        self.is_exempt = True


class TimedSteps(Coroutine[Any, Any, T]):
    """A coroutine that tells of each of its steps how many nanoseconds it took."""

    __slots__ = ("_note", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], note: Callable[[int], None]) -> None:
        self._work = work
        self._note = note

    def send(self, value: Any) -> Any:
        """Go on."""
        began_ns = monotonic_ns()
        try:
            return self._work.send(value)
        finally:
            self._note(monotonic_ns() - began_ns)

    def throw(
        self,
        typ: Any,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        """Go on with an exception."""
        return self._work.throw(typ) if val is None else self._work.throw(typ, val, tb)

    def close(self) -> None:
        """End it."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise AssertionError("a task drives it, or the coroutine whose rest it is")
