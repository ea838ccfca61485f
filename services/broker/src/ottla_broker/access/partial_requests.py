"""Requests of which a client may do some, or nothing: what it may is handled, the rest is refused, the answer is one.

A *check* looks at a decoded request before its handler. It returns None if the client may do all of it, and then the
handler has the request as it came. Otherwise it returns a `PermittedPart`: the request without what is refused, and
the responses that refuse the rest. The handler is called at once, so that requests take effect in the order in which
they were sent, and the refusals join its response.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from kio.static.protocol import Entity

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Answer, Outcome, Parts
from ottla_core.slices import Unfinished, started
from ottla_core.wire.conversion import convert
from ottla_core.wire.group_id import GroupMessage

Handler = Callable[[Broker, Request], Outcome]


@dataclass(frozen=True, slots=True)
class PermittedPart:
    """What a client may do of a request.

    Attributes:
        message: what is left of the request; None if nothing is.
        refusals: responses that refuse the rest; there is at least one if nothing is left.
        answers: the list of the responses that has an answer for each item.
        revise: changes the response of the handler, as a client may not see all of it; None if it may.
    """

    message: Any | None
    refusals: Sequence[Entity] = ()
    answers: str = ""
    revise: Callable[[Any], Any] | None = None


Check = Callable[[Broker, Request], PermittedPart | None]


def checked(check: Check, handler: Handler) -> Handler:
    """Return a handler before which a check stands; without an authorizer it is not asked."""

    def handle(broker: Broker, request: Request) -> Outcome:
        if not broker.authorization.is_on:
            return handler(broker, request)
        permitted = check(broker, request)
        if permitted is None:
            return handler(broker, request)
        return _handle_rest(handler, broker, request, permitted)

    return handle


def decoded(request: Request) -> Any:
    """Return the whole message of a request of which only the group's id may have been read.

    Raises:
        InvalidRequest: the rest is malformed.
    """
    message = request.message
    if isinstance(message, GroupMessage):
        return request.codec.read_request(memoryview(request.frame), request.header)
    return message


@dataclass(slots=True)
class _RestOfRequest(Request):
    """What is left of a request; what it is answered with is kept instead of encoded.

    Attributes:
        whole: the request.
        answer: in the class of the request's version.
    """

    whole: Request | None = None
    answer: Entity | None = None

    @property
    def elapsed_s(self) -> float:
        """For how long the whole request is being handled."""
        assert self.whole is not None
        return self.whole.elapsed_s

    def respond(self, response: Entity) -> Parts:
        """Keep a response."""
        self.answer = convert(response, self.codec.response_type)
        return []


def _handle_rest(handler: Handler, broker: Broker, request: Request, permitted: PermittedPart) -> Outcome:
    if permitted.message is None:
        return request.respond(_joined(permitted.refusals[0], permitted.refusals[1:], permitted.answers))
    frame = request.frame
    if frame and permitted.message is not request.message:
        frame = request.codec.encode_request(request.header, permitted.message)
    rest = _RestOfRequest(request.header, permitted.message, request.codec, request.connection, frame, request)
    outcome = handler(broker, rest)
    if outcome is None or isinstance(outcome, list):
        return _complete(request, rest, permitted, outcome)
    completed = _complete_later(request, rest, permitted, outcome)
    return started(completed) if isinstance(outcome, Unfinished) else completed


async def _complete_later(
    request: Request, rest: _RestOfRequest, permitted: PermittedPart, outcome: Awaitable[Answer | Awaitable[Answer]]
) -> Answer:
    answer = await outcome
    while answer is not None and not isinstance(answer, list):
        answer = cast("Answer | Awaitable[Answer]", await answer)
    return _complete(request, rest, permitted, answer)


def _complete(request: Request, rest: _RestOfRequest, permitted: PermittedPart, answer: Answer) -> Answer:
    if answer is None:
        return None
    response: Any = rest.answer
    if response is None:  # a coordinator's answer, or one that is encoded by hand
        encoded = b"".join(part for part in answer if isinstance(part, bytes))
        response = request.codec.read_response(encoded)
    if permitted.revise is not None:
        response = permitted.revise(response)
    return request.respond(_joined(response, permitted.refusals, permitted.answers))


def _joined(response: Any, refusals: Sequence[Any], answers: str) -> Any:
    if not refusals or not answers:
        return response
    items = (*getattr(response, answers), *(item for each in refusals for item in getattr(each, answers)))
    return replace(response, **{answers: items})
