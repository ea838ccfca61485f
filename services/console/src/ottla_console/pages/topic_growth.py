"""How a topic grows: records and bytes per second over the last minutes, and its size over time."""

from typing import Final

from starlette.responses import Response

from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import Visit


async def growth(visit: Visit) -> Response:
    """Show what the looks at the cluster have seen of a topic so far."""
    watch = visit.watch
    _, row = await topic_row(visit)
    watch.growth.use(row.name)
    return visit.render(
        "topic_growth.html",
        topic=row,
        tab="growth",
        growth=watch.growth.of(row.name),
        sample_problem=watch.sample_problem,
    )


VIEWS: Final = (View("/topics/{topic:segment}/growth", growth, "topics"),)
