"""One look at a cluster: brokers, how large and how long its logs are, and how far groups have read."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.cluster.cluster_view import ClusterView, Disks, LogDirectoryView
from ottla_operations.errors import OperationError
from ottla_operations.groups.coordinator_answers import is_waiting
from ottla_operations.groups.inspection import EMPTY, Partition, committed_offsets, list_groups, log_offsets
from ottla_operations.kafka_access import checked_admin_client
from ottla_sdk.kafka.coordinator_requests import close

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

GROUPS_MAX = 100
"""The groups that are looked at unless somebody says otherwise, in the order of their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSample:
    """A group: its state, and by partition the offset that it reads next."""

    state: str
    committed: Mapping[Partition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A cluster at one moment.

    Attributes:
        at_s: when, by a clock that does not jump.
        view: brokers and partitions.
        disks: the copies of partitions, by broker.
        directories: the log directories, by broker.
        ends: the offset of the next record of each partition that has a leader.
        groups: consumer groups, by name.
        not_seen: what could not be asked, a line each.
    """

    at_s: float
    view: ClusterView
    disks: Disks = field(default_factory=dict)
    directories: Mapping[int, Sequence[LogDirectoryView]] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    groups: Mapping[str, GroupSample] = field(default_factory=dict)
    not_seen: Sequence[str] = ()


class Sampler:
    """Looks at a cluster again and again, over connections that it keeps.

    Args:
        bootstrap: addresses of brokers.
        config: settings of a client, under librdkafka's names.
        groups_max: how many groups are looked at, in the order of their names.
    """

    def __init__(self, bootstrap: str, config: Mapping[str, Any], *, groups_max: int = GROUPS_MAX) -> None:
        self._bootstrap = bootstrap
        self._config = config
        self._groups_max = groups_max
        self._client = self._new_client()

    def take(self) -> Sample:
        """Return a new look.

        Raises:
            OperationError: no broker answers.
        """
        at_s = time.monotonic()
        if is_waiting(self._client):
            waiting, self._client = self._client, self._new_client()
            close(waiting)
        with ClusterAdmin(self._bootstrap, self._config) as admin:
            view = admin.view()
            brokers = view.brokers.values()
            disks, directories = admin.disks(brokers), admin.log_directories(brokers)
        not_seen = [f"broker {number} does not answer" for number in sorted(view.brokers.keys() - disks.keys())]
        ends = self._ends(view, not_seen)
        groups = self._groups(not_seen)
        return Sample(
            at_s=at_s, view=view, disks=disks, directories=directories, ends=ends, groups=groups, not_seen=not_seen
        )

    def _new_client(self) -> "AdminClient":
        return checked_admin_client({**self._config, "bootstrap.servers": self._bootstrap})

    def _ends(self, view: ClusterView, not_seen: list[str]) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        led = [(name.topic, name.partition) for name, each in view.partitions.items() if each.leader is not None]
        try:
            return log_offsets(self._client, led, OffsetSpec.latest(), self._bootstrap, all_led=False)  # type: ignore[no-untyped-call]
        except OperationError as error:
            not_seen.append(str(error))
            return {}

    def _groups(self, not_seen: list[str]) -> dict[str, GroupSample]:
        found: dict[str, GroupSample] = {}
        if not self._groups_max:
            return found
        try:
            for each in list_groups(self._client, self._bootstrap)[0][: self._groups_max]:
                committed = committed_offsets(self._client, each.group, self._bootstrap)
                found[each.group] = GroupSample(state=each.state or EMPTY, committed=committed)
        except OperationError as error:
            not_seen.append(str(error))
        return found
