"""The groups that read a topic: state, members, lag."""

from typing import Final

from starlette.responses import Response

from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import Visit
from ottla_console.views.consumer_table import consumer_rows, gaps
from ottla_console.views.paging import page_number, page_of


async def consumers(visit: Visit) -> Response:
    """Show the groups with a member or a committed offset in a topic, as far as they were asked."""
    _, row = await topic_row(visit)
    known = await visit.watch.consumers.of(row.name)
    # Only of groups that the cluster shows to this user, as metrics tell of all.
    seconds = await visit.watch.lag_seconds.get()
    words = visit.query("q")
    rows = [] if known.found is None else consumer_rows(known.found, row.name, seconds, words)
    return visit.render(
        "topic_consumers.html",
        topic=row,
        tab="consumers",
        q=words,
        is_known=known.found is not None,
        has_any=known.found is not None and bool(known.found.consumers),
        shown=page_of(rows, page_number(visit.query("page", "1"))),
        gaps=[] if known.found is None else gaps(known.found),
        problem=known.problem,
        with_seconds=bool(visit.cluster.metrics_urls),
    )


VIEWS: Final = (View("/topics/{topic:segment}/consumers", consumers, "topics"),)
