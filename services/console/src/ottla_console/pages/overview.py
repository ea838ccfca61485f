"""The overview of a cluster: health with remedies, traffic, counts, brokers."""

from typing import Final

from starlette.responses import Response

from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.cluster_events import chosen, event_rows
from ottla_console.views.line_chart import line_chart
from ottla_console.views.numbers import bytes_rate_text, rate_text
from ottla_console.views.overview import HARM_WORDS, counts, verdict
from ottla_operations.errors import OperationError

EVENTS_SHOWN: Final = 5


async def overview(visit: Visit) -> Response:
    """Show how a cluster is, without waiting for what takes long."""
    watch = visit.watch
    view = await watch.view.get()
    found = watch.activity()
    points = list(watch.traffic)
    records = line_chart(
        "Records produced per second",
        [(each.at_s, each.records_per_s) for each in points],
        [f"{rate_text(each.records_per_s)}/s" for each in points],
    )
    written = line_chart(
        "Bytes written per second, all copies",
        [(each.at_s, each.bytes_per_s) for each in points],
        [bytes_rate_text(each.bytes_per_s) for each in points],
    )
    return visit.render(
        "overview.html",
        view=view,
        counts=counts(view, found),
        brokers=found.brokers if found else (),
        charts=[each for each in (records, written) if each is not None],
        sample_problem=watch.sample_problem,
        events=event_rows(chosen(watch.events.events, kind="", words="")[:EVENTS_SHOWN]),
    )


async def health(visit: Visit) -> Response:
    """Show what the doctor finds: a part of the overview that comes when it is known."""
    try:
        found = await visit.watch.health.get()
    except OperationError as error:
        return visit.render(
            "health.html", level="bad", sentence=str(error), findings=(), not_seen=(), words=HARM_WORDS
        )
    level, sentence = verdict(found.findings, found.not_seen)
    return visit.render(
        "health.html",
        level=level,
        sentence=sentence,
        findings=found.findings,
        not_seen=found.not_seen,
        words=HARM_WORDS,
    )


VIEWS: Final = (
    View("", overview, "overview"),
    View("/health", health, "overview"),
)
