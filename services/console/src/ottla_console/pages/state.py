"""What stands in etcd of a cluster of Ottla, in words; nothing is changed here.

etcd knows nothing of the cluster's users, and its state tells of everything, so it is for those who may alter the
cluster.
"""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.etcd_state import KEYS_MAX, read_part
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.state_words import SECTIONS, with_words
from ottla_operations.cluster.cluster_rights import check_may_alter


async def state(visit: Visit) -> Response:
    """Show a part of the state."""
    words, chosen = visit.query("q"), visit.query("part")
    section = chosen if chosen in SECTIONS else next(iter(SECTIONS))
    if visit.cluster.etcd_url is None:
        return visit.render("state.html", sections=SECTIONS, part=section, q=words, shown=None, keys_max=None)

    def check(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            check_may_alter(admin, "looking at the state in etcd")

    await visit.ask(check)
    view = await visit.watch.view.get()
    found = await read_part(visit.cluster, view.cluster_id, section)
    return visit.render(
        "state.html",
        sections=SECTIONS,
        part=section,
        q=words,
        shown=page_of(with_words(found.rows, words), page_number(visit.query("page", "1"))),
        keys_max=None if found.is_whole else KEYS_MAX,
    )


VIEWS: Final = (View("/state", state, "state"),)
