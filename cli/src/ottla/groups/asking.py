"""Asking about groups as `ottla_operations.groups.inspection` does; who waits long is told what for."""

from typing import TYPE_CHECKING

from ottla.waiting_notice import told_when_slow
from ottla_operations.groups import inspection
from ottla_operations.groups.inspection import Group, GroupSummary, Partition
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def list_groups(client: "AdminClient", bootstrap: str) -> tuple[list[GroupSummary], list[str]]:
    """Return all groups of consumers in order, and what brokers answered that could not tell theirs."""
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
        return inspection.list_groups(client, bootstrap)


def describe_group(client: "AdminClient", group: str, bootstrap: str) -> Group:
    """Return what a group's coordinator tells.

    Raises:
        NoSuchGroup: there is none of this name.
    """
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
        return inspection.describe_group(client, group, bootstrap)


def committed_offsets(client: "AdminClient", group: str, bootstrap: str) -> dict[Partition, int]:
    """Return every offset that a group has committed, in order of topics and partitions."""
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
        return inspection.committed_offsets(client, group, bootstrap)
