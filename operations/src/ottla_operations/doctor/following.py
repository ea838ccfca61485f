"""Who follows what is produced, as a cluster tells it: consumer groups, and topics that follow another cluster."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla_core.client.links import link_status
from ottla_operations.doctor.falling_behind import BEHIND_MIN
from ottla_operations.doctor.findings import GroupPlace, LinkPlace
from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import EMPTY, Partition, committed_offsets, list_groups, log_offsets
from ottla_operations.kafka_access import checked_admin_client
from ottla_operations.links.link_admin import LinkAdmin

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

GROUPS_MAX = 200
"""The groups that are looked at, in the order of their names."""


def groups_behind(bootstrap: str, config: Mapping[str, Any]) -> list[GroupPlace]:
    """Return the places where groups have not read everything."""
    with checked_admin_client({**config, "bootstrap.servers": bootstrap}) as client:
        groups = {each.group: each.state != EMPTY for each in list_groups(client, bootstrap)[0][:GROUPS_MAX]}
        committed = {group: committed_offsets(client, group, bootstrap) for group in groups}
        places_read = {place for each in committed.values() for place in each}
        starts, ends, overdue = _log_offsets(client, places_read, bootstrap)
    return [
        GroupPlace(
            group=group,
            place=f"{place[0]}-{place[1]}",
            committed=offset,
            log_start=starts[place],
            log_end=ends[place],
            overdue_before=overdue.get(place, ends[place]),
            has_members=groups[group],
        )
        for group, places in committed.items()
        for place, offset in places.items()
        if place in ends and place in starts and offset < ends[place]
    ]


def _log_offsets(
    client: "AdminClient", places: set[Partition], bootstrap: str
) -> tuple[dict[Partition, int], dict[Partition, int], dict[Partition, int]]:
    """Return where logs begin and end, and where what is not old begins, if it does."""
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    young_ms = round((time.time() - BEHIND_MIN * 60) * 1000)
    starts = log_offsets(client, places, OffsetSpec.earliest(), bootstrap)  # type: ignore[no-untyped-call]
    ends = log_offsets(client, places, OffsetSpec.latest(), bootstrap)  # type: ignore[no-untyped-call]
    return starts, ends, log_offsets(client, places, OffsetSpec.for_timestamp(young_ms), bootstrap)


def linked_places(bootstrap: str, config: Mapping[str, Any]) -> list[LinkPlace]:
    """Return what the partitions of all links are doing; none where there are no links, as in Apache Kafka."""
    try:
        partitions = LinkAdmin(bootstrap, config).ask(link_status([])).partitions
    except OperationError:
        return []
    return [LinkPlace(each.link, f"{each.topic}-{each.index}", str(each.state), each.reason) for each in partitions]
