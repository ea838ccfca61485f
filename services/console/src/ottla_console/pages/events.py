"""What has changed in a cluster lately, with time and, where known, cause."""

from typing import Final

from starlette.responses import Response

from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.cluster_events import KIND_WORDS, chosen, event_rows
from ottla_console.views.paging import page_number, page_of


async def events(visit: Visit) -> Response:
    """Show the events, the newest first."""
    await visit.watch.view.get()  # so that what has changed until now is among them
    kind, words = visit.query("kind"), visit.query("q")
    found = chosen(visit.watch.events.events, kind=kind, words=words)
    shown = page_of(found, page_number(visit.query("page", "1")))
    return visit.render(
        "events.html", shown=shown, rows=event_rows(shown.items), kinds=KIND_WORDS, kind=kind, q=words
    )


VIEWS: Final = (View("/events", events, "events"),)
