"""The messages of a topic as they arrive: a page, and the stream of events that fills it.

The stream sends the newest messages that were found, all of them each time, so that neither side holds more than a
page. It ends when the browser goes, the session ends, the console ends, or its time is up; a browser that connects
again tells where it was.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Final

from starlette.responses import Response, StreamingResponse

from ottla_console.clusters.topic_tail import EVERY_S, LASTS_S, ROWS_SHOWN, TopicTail
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.message_query import BadQuery, MessageQuery, message_query, place_text
from ottla_console.views.server_sent_event import STILL_HERE, server_sent_event
from ottla_console.views.topic_table import TopicRow
from ottla_operations.errors import OperationError
from ottla_operations.records.record_search import BadSearch, search

QUIET_S: Final = 10.0
"""After which time without messages a browser is asked whether it is there."""


async def tail(visit: Visit) -> Response:
    """Show the page; paused, it has no stream."""
    _, row = await topic_row(visit)
    typed = visit.request.query_params
    problem = None
    try:
        query = _query(typed, row)
        at = place_text(query.place) if query.place else ""
        stream = visit.address("topics", row.name, "tail.events", **_parameters(query), at=at)
        again = visit.address("topics", row.name, "tail", **_parameters(query))
    except (BadQuery, BadSearch) as error:
        problem, stream, again = str(error), "", ""
    return visit.render(
        "topic_tail.html",
        status=200 if problem is None else 400,
        topic=row,
        tab="messages",
        typed=typed,
        problem=problem,
        is_paused=bool(typed.get("paused")),
        stream=stream,
        again=again,
        rows_shown=ROWS_SHOWN,
    )


async def events(visit: Visit) -> Response:
    """Answer with the stream."""
    _, row = await topic_row(visit)
    returned = visit.request.headers.get("last-event-id")
    typed = {**visit.request.query_params, **({"at": returned} if returned else {})}
    try:
        query = _query(typed, row)
    except (BadQuery, BadSearch) as error:
        raise BadForm(str(error)) from None
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(visit, row, query), media_type="text/event-stream", headers=headers)


async def _stream(visit: Visit, row: TopicRow, query: MessageQuery) -> AsyncIterator[bytes]:
    try:
        with visit.console.tails.place():
            shown = await visit.ask(lambda kit: TopicTail(kit, visit.mask(row.name), row.name, row.partitions, query))
            try:
                yield _rows(visit, row, shown)
                async for event in _events(visit, row, shown):
                    yield event
            finally:
                visit.console.threads.leave(shown.close)  # it waits for a step that is under way
    except OperationError as error:
        yield _end(visit, row, query, str(error))
    else:
        yield _end(visit, row, query, None, at=place_text(shown.place))


async def _events(visit: Visit, row: TopicRow, shown: TopicTail) -> AsyncIterator[bytes]:
    ends_s = time.monotonic() + LASTS_S
    told_s = time.monotonic()
    while time.monotonic() < ends_s and _may_go_on(visit):
        with suppress(TimeoutError):
            await asyncio.wait_for(visit.console.tails.ending.wait(), EVERY_S)
        if not _may_go_on(visit):
            return
        if await visit.ask(lambda _: shown.step()):
            told_s = time.monotonic()
            yield _rows(visit, row, shown)
        elif time.monotonic() - told_s > QUIET_S:
            told_s = time.monotonic()
            yield STILL_HERE


def _may_go_on(visit: Visit) -> bool:
    if visit.console.tails.ending.is_set():
        return False
    if not visit.cluster.needs_sign_in:
        return True
    goes_on = visit.console.sessions.goes_on(visit.session_id, time.monotonic())
    return goes_on and visit.is_signed_in(visit.cluster)


def _rows(visit: Visit, row: TopicRow, shown: TopicTail) -> bytes:
    at = place_text(shown.place)
    text = visit.text("topic_tail_rows.html", topic=row, shown=shown, at=at, rows_shown=ROWS_SHOWN)
    return server_sent_event("rows", text, at)


def _end(visit: Visit, row: TopicRow, query: MessageQuery, problem: str | None, at: str = "") -> bytes:
    again = visit.address("topics", row.name, "tail", **_parameters(query), at=at)
    return server_sent_event("end", visit.text("topic_tail_end.html", problem=problem, again=again))


def _query(typed: Mapping[str, str], row: TopicRow) -> MessageQuery:
    query = message_query({**typed, "order": "", "start": ""}, row.partitions)
    if query.words:
        search(query.words, query.where)
    return query


def _parameters(query: MessageQuery) -> dict[str, str]:
    return {name: value for name, value in query.parameters().items() if name not in ("order", "start")}


VIEWS: Final = (
    View("/topics/{topic:segment}/tail", tail, "topics"),
    View("/topics/{topic:segment}/tail.events", events, "topics"),
)
