"""What a connection needs of its listener, and of what stands before its requests."""

from typing import TYPE_CHECKING, Protocol

from ottla_broker.outcome import Outcome
from ottla_broker.receive_buffer import BufferPool, RequestBudget

if TYPE_CHECKING:
    from ottla_broker.connection import Connection


class Gate(Protocol):
    """What stands before a connection's requests; see `sasl_gate.py`."""

    @property
    def request_bytes_max(self) -> int | None:
        """The largest request, None where the broker's own limit holds."""

    def is_overdue(self, now: float) -> bool:
        """Return whether it waits too long for the client."""

    def handle(self, frame: memoryview) -> Outcome:
        """Handle a frame, or have it handled; as `ConnectionOwner.handle`."""


class ConnectionOwner(Protocol):
    """What a connection needs of its listener."""

    shared_buffer: memoryview
    pool: BufferPool
    budget: RequestBudget
    request_bytes_max: int

    def handle(self, frame: memoryview, connection: "Connection") -> Outcome:
        """Handle a frame, which must not be referred to after the call.

        Raises:
            InvalidRequest: the connection must be closed.
        """

    def on_closed(self, connection: "Connection") -> None:
        """Forget the connection."""

    def wait_for_budget(self, connection: "Connection") -> None:
        """Call the connection's `resume` when the budget may have room."""

    def budget_released(self) -> None:
        """Let connections that wait for the budget try again."""

    def unsent_changed(self, difference: int) -> None:
        """Note that connections have so many bytes more, or fewer, of responses that their peers do not read."""
