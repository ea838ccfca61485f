"""A request of the process itself to one of its shards, in place of one that came on a stream."""

from collections.abc import Callable
from typing import Any

from ottla_core.errors import KafkaError
from ottla_group_coordinator.runtime.turn import CoordinatorRequest


class InternalRequest:
    """A request and what follows from its answer; see `WaitingRequest`."""

    __slots__ = ("_on_answer", "_on_refusal", "request")

    def __init__(
        self,
        request: CoordinatorRequest,
        on_answer: Callable[[Any], None],
        on_refusal: Callable[[KafkaError], None],
    ) -> None:
        self.request = request
        self._on_answer = on_answer
        self._on_refusal = on_refusal

    def answer(self, response: Any) -> None:
        """Take the answer, which is stored."""
        self._on_answer(response)

    def refuse(self, error: KafkaError) -> None:
        """Take the refusal."""
        self._on_refusal(error)
