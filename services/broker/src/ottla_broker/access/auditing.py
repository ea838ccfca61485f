"""Has the audit log record the requests that change the cluster, with what became of each."""

from collections import Counter
from collections.abc import Awaitable
from typing import Any, cast

from ottla_broker.access.partial_requests import Handler
from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.audit.audit_records import AuditResult, Caller
from ottla_broker.audit.audited_requests import changed_resources
from ottla_broker.authorization import caller_of
from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Answer, Outcome
from ottla_core.slices import Unfinished, started
from ottla_core.wire.response_errors import outcomes_in


def audited(handler: Handler) -> Handler:
    """Return a handler whose requests are recorded; without an audit log they are not."""

    def handle(broker: Broker, request: Request) -> Outcome:
        audit = broker.audit
        if audit is None:
            return handler(broker, request)
        resources = changed_resources(
            request.header.api_key, request.message, lambda topic_id: _topic_name(broker, topic_id)
        )
        if resources is None:
            return handler(broker, request)
        caller = caller_of(request)  # before an await, as the client may log in anew meanwhile
        outcome = handler(broker, request)
        if outcome is None or isinstance(outcome, list):
            _note(audit, caller, resources, request, outcome)
            return outcome
        noted = _note_later(audit, caller, resources, request, outcome)
        return started(noted) if isinstance(outcome, Unfinished) else noted

    return handle


def _topic_name(broker: Broker, topic_id: Any) -> str | None:
    found = broker.state.topics_by_id.get(topic_id)
    return None if found is None else found.name


async def _note_later(
    audit: AuditLog,
    caller: Caller,
    resources: list[str],
    request: Request,
    outcome: Awaitable[Answer | Awaitable[Answer]],
) -> Answer:
    try:
        answer = await outcome
        while answer is not None and not isinstance(answer, list):
            answer = cast("Answer | Awaitable[Answer]", await answer)
    except BaseException:
        # The client has left, or we have failed: the controller may have done it all the same.
        audit.note_change(caller, resources, AuditResult.UNANSWERED, {}, in_vain=False)
        raise
    _note(audit, caller, resources, request, answer)
    return answer


def _note(audit: AuditLog, caller: Caller, resources: list[str], request: Request, answer: Answer) -> None:
    response: Any = getattr(request, "answer", None)  # of a request that is handled in parts
    if response is None and answer:
        response = request.codec.read_response(b"".join(part for part in answer if isinstance(part, bytes)))
    outcomes = list(outcomes_in(response)) if response is not None else []
    errors = Counter(code.name.upper() for code in outcomes if code)
    in_vain = bool(errors) and errors.total() == len(outcomes)
    if not errors:
        result = AuditResult.DONE
    elif in_vain and all(name.endswith("AUTHORIZATION_FAILED") for name in errors):
        result = AuditResult.DENIED
    else:
        result = AuditResult.FAILED
    audit.note_change(caller, resources, result, errors, in_vain=in_vain)
