"""Comparing a cluster with its source, topic by topic: begun here, with its progress and its result.

The source is a cluster that the console shows, read with what the user has signed in with there: an address that is
typed would have the console connect to wherever somebody likes.
"""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.verifications import RunningVerification
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, Visit
from ottla_console.views.verification_view import wanted_of
from ottla_operations.errors import OperationError


async def show(visit: Visit) -> Response:
    """Show the form, and the comparison that goes on or was the last."""
    running = _own(visit)
    return visit.render(
        "verification.html", sources=_sources(visit), progress=running.progress() if running else None
    )


async def begin(visit: Visit) -> Response:
    """Begin a comparison."""
    try:
        wanted = wanted_of(visit.form, _sources(visit))
    except ValueError as error:
        raise BadForm(str(error)) from None
    console, settings = visit.console, visit.console.clusters[wanted.source]
    source = console.watches.of(settings, visit.credentials_of(settings)).kit

    async def effect() -> None:
        console.verifications.begin(source, visit.watch.kit, wanted)

    await visit.act("mirror.verify", visit.cluster.name, effect, source=wanted.source, topics=list(wanted.topics))
    return visit.redirect(visit.address("verification"))


async def end(visit: Visit) -> Response:
    """End the user's own comparison."""

    async def effect() -> None:
        running = _own(visit)
        if running is None or running.progress().is_over:
            raise OperationError("nothing was ended: no comparison of yours goes on")
        running.end()

    await visit.act("mirror.verify-end", visit.cluster.name, effect)
    return visit.redirect(visit.address("verification"), notice="The comparison ends.")


def _own(visit: Visit) -> RunningVerification | None:
    """Return the comparison if the user has begun it: it tells of topics that others may not see."""
    running = visit.console.verifications.of(visit.cluster.name)
    return running if running is not None and running.user == visit.user else None


def _sources(visit: Visit) -> list[str]:
    """Return the clusters that can be the source: others, to which the user has signed in where that is needed."""
    return [
        name
        for name, each in visit.console.clusters.items()
        if name != visit.cluster.name and visit.is_signed_in(each)
    ]


VIEWS: Final = (
    View("/verification", show, "mirrors"),
    View("/verification", begin, "mirrors", method="POST"),
    View("/verification/end", end, "mirrors", method="POST"),
)
