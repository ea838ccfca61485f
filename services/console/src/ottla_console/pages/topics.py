"""The list of topics, and creating one."""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.settling import wait_until_shown
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.topic_form import BadField, new_topic
from ottla_console.views.topic_table import FILTERS, TopicQuery, selected, topic_rows
from ottla_operations.cluster.topic_changes import create_topic
from ottla_operations.errors import OperationError


async def topics(visit: Visit) -> Response:
    """Show a page of the topics that a query wants; rates and sizes are those of the newest look."""
    watch = visit.watch
    view = await watch.view.get()
    rows = topic_rows(view, watch.activity())
    query = TopicQuery(words=visit.query("q"), shown=visit.query("show"), sort=visit.query("sort", "name"))
    return visit.render(
        "topics.html",
        query=query,
        filters=FILTERS,
        shown=page_of(selected(rows, query), page_number(visit.query("page", "1"))),
        has_own=any(not row.is_internal for row in rows),
    )


async def show_new(visit: Visit) -> Response:
    """Show the form of a new topic."""
    view = await visit.watch.view.get()
    return visit.render("topic_new.html", typed={}, problem=None, brokers=len(view.brokers))


async def create(visit: Visit) -> Response:
    """Create a topic; what is wrong with it is told beside the form as it was filled in."""
    view = await visit.watch.view.get()
    try:
        wanted = new_topic(visit.form)
    except BadField as error:
        return visit.render(
            "topic_new.html", status=400, typed=visit.form, problem=str(error), brokers=len(view.brokers)
        )

    def effect(kit: ClusterKit) -> None:
        create_topic(
            kit.admin_client(),
            kit.settings.bootstrap,
            wanted.name,
            partitions=wanted.partitions,
            replication_factor=wanted.replicas,
            settings=wanted.settings,
        )
        wait_until_shown(kit, lambda seen: wanted.name in seen.topics)

    try:
        await visit.act(
            "topic.create",
            wanted.name,
            lambda: visit.ask(effect),
            partitions=wanted.partitions,
            replicas=wanted.replicas,
            settings=dict(wanted.settings),
        )
    except OperationError as error:
        return visit.render(
            "topic_new.html", status=409, typed=visit.form, problem=str(error), brokers=len(view.brokers)
        )
    return visit.redirect(visit.address("topics", wanted.name), notice=f"Topic {wanted.name} was created.")


VIEWS: Final = (
    View("/topics", topics, "topics"),
    View("/new-topic", show_new, "topics"),
    View("/new-topic", create, "topics", method="POST"),
)
