"""One topic: its partitions; more of them; deleting it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import OffsetSpec
from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.settling import wait_until_shown
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.topic_form import PARTITIONS_MAX
from ottla_console.views.topic_partitions import partition_rows
from ottla_console.views.topic_table import TopicRow, topic_rows
from ottla_operations.cluster.cluster_view import ClusterView, Disks
from ottla_operations.cluster.topic_changes import add_partitions, delete_topic, empty_topic
from ottla_operations.groups.inspection import Partition, log_offsets


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Where the logs of a topic's partitions begin and end, and its copies on disks."""

    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]
    disks: Disks


async def topic_row(visit: Visit) -> tuple[ClusterView, TopicRow]:
    """Return what the head of each of a topic's pages shows.

    Raises:
        NotFound: there is no such topic, or the user may not see it.
    """
    name = visit.request.path_params["topic"]
    view = await visit.watch.view.get()
    row = next((each for each in topic_rows(view, visit.watch.activity()) if each.name == name), None)
    if row is None:
        raise NotFound(
            f"there is no topic {name} in {visit.cluster.name}, or {visit.user or 'the console'} may not see it"
        )
    return view, row


async def partitions(visit: Visit) -> Response:
    """Show the partitions of a topic."""
    view, row = await topic_row(visit)
    offsets = await visit.ask(lambda kit: _offsets(kit, view, row.name))
    rows = partition_rows(view, row.name, offsets.disks, offsets.starts, offsets.ends)
    shown = page_of(rows, page_number(visit.query("page", "1")))
    return visit.render("topic_partitions.html", topic=row, shown=shown, tab="partitions")


async def grow(visit: Visit) -> Response:
    """Give a topic more partitions."""
    _, row = await topic_row(visit)
    text = visit.form.get("partitions", "")
    if not text.isdecimal() or not row.partitions < int(text[:9]) <= PARTITIONS_MAX:
        raise BadForm(
            f"a topic's partitions only grow: type a number from {row.partitions + 1} to {PARTITIONS_MAX:,}"
        )
    wanted = int(text)

    def effect(kit: ClusterKit) -> None:
        add_partitions(kit.admin_client(), kit.settings.bootstrap, row.name, wanted)
        wait_until_shown(kit, lambda seen: seen.topics.get(row.name) == wanted)

    await visit.act(
        "topic.add-partitions",
        row.name,
        lambda: visit.ask(effect),
        before=row.partitions,
        partitions=wanted,
    )
    return visit.redirect(visit.address("topics", row.name), notice=f"Topic {row.name} has {wanted} partitions now.")


async def empty(visit: Visit) -> Response:
    """Delete all records of a topic whose name was typed."""
    _, row = await topic_row(visit)

    def effect(kit: ClusterKit) -> None:
        empty_topic(kit.admin_client(), kit.settings.bootstrap, row.name, row.partitions)

    await visit.act("topic.empty", row.name, lambda: visit.ask(effect), needed=row.name)
    return visit.redirect(visit.address("topics", row.name), notice=f"The records of {row.name} were deleted.")


async def delete(visit: Visit) -> Response:
    """Delete a topic whose name was typed."""
    _, row = await topic_row(visit)

    def effect(kit: ClusterKit) -> None:
        delete_topic(kit.admin_client(), kit.settings.bootstrap, row.name)
        wait_until_shown(kit, lambda seen: row.name not in seen.topics)

    await visit.act("topic.delete", row.name, lambda: visit.ask(effect), needed=row.name)
    return visit.redirect(visit.address("topics"), notice=f"Topic {row.name} was deleted.")


def _offsets(kit: ClusterKit, view: ClusterView, topic: str) -> _Offsets:
    led = [
        (topic, name.partition)
        for name, each in view.partitions.items()
        if name.topic == topic and each.leader is not None
    ]
    client, bootstrap = kit.admin_client(), kit.settings.bootstrap
    starts = log_offsets(client, led, OffsetSpec.earliest(), bootstrap, all_led=False)  # type: ignore[no-untyped-call]
    ends = log_offsets(client, led, OffsetSpec.latest(), bootstrap, all_led=False)  # type: ignore[no-untyped-call]
    with kit.cluster_admin() as admin:
        holders = {
            broker for name, each in view.partitions.items() if name.topic == topic for broker in each.replicas
        }
        disks = admin.disks([broker for number, broker in view.brokers.items() if number in holders])
    return _Offsets(starts, ends, disks)


VIEWS: Final = (
    View("/topics/{topic:segment}", partitions, "topics"),
    View("/topics/{topic:segment}/partitions", grow, "topics", method="POST"),
    View("/topics/{topic:segment}/empty", empty, "topics", method="POST"),
    View("/topics/{topic:segment}/delete", delete, "topics", method="POST"),
)
