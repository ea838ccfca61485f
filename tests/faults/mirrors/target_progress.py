"""How far the target has come, asked of the logs and of the stored maps, not of those who mirror."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from ottla_core.client.links import link_status
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_operations.workers.mirror_client import flow_path
from tests.faults.cluster_files import Partitions
from tests.faults.mirrors.mirror_load import worker_names
from tests.faults.mirrors.mirror_operators import LinkOfTrial, MirrorOperators
from tests.faults.mirrors.operated_topics import GROWING, REBORN
from tests.faults.mirrors.sites import FLOW, Sites
from tests.faults.mirrors.stored_maps import read_maps
from tests.faults.topics import COPIED_TOPICS, GROUP_LOAD_TOPIC, LEDGER, LINKED_LEDGER, LINKED_TOPICS
from tests.support.eventually import NotInTime, eventually

STATE_DEADLINE_S = 30.0
COPIED = frozenset(
    {*(topic.name for topic in (*COPIED_TOPICS, LEDGER)), GROUP_LOAD_TOPIC, REBORN.copied, GROWING.copied}
)
LINKED = frozenset({*(topic.name for topic in (*LINKED_TOPICS, LINKED_LEDGER)), REBORN.linked, GROWING.linked})


class TargetProgress:
    """Looks how far copies and linked partitions have come.

    Attributes:
        maps: the copies' maps of offsets, as `behind` read them last.
    """

    def __init__(self, sites: Sites, link: LinkOfTrial, operators: MirrorOperators) -> None:
        self.maps: Mapping[tuple[str, int], OffsetMap] = {}
        self._sites = sites
        self._link = link
        self._operators = operators

    def behind(self, source: Partitions, target: Partitions) -> list[str]:
        """The partitions of which the target does not have everything."""
        copied = [partition for partition in source if partition[0] in COPIED]
        self.maps = read_maps(self._sites.target.bootstrap, copied)
        return [
            *self._copies_behind(copied, source),
            *self._links_behind([partition for partition in source if partition[0] in LINKED], source, target),
        ]

    def _copies_behind(self, copied: list[tuple[str, int]], source: Partitions) -> Iterator[str]:
        for partition in copied:
            topic, index = partition
            end = source[partition].high_watermark
            found = self.maps.get(partition)
            if found is None or found.source_end < end:
                yield f"{topic}-{index} is copied up to {found and found.source_end}, of {end}"

    def _links_behind(self, linked: list[tuple[str, int]], source: Partitions, target: Partitions) -> Iterator[str]:
        for partition in linked:
            topic, index = partition
            if topic == REBORN.linked and self._is_recreated:
                continue  # it has stopped, as it must
            end = source[partition].high_watermark
            found = target.get(partition)
            if found is None or found.high_watermark != end:
                yield f"{topic}-{index} follows up to {found and found.high_watermark}, of {end}"

    def describe(self, path: Path) -> None:
        """Writes down what the workers say about the copies, for whoever looks for the reason of a failure."""
        told = {}
        security = self._sites.target.security
        verify = security.administrator() if security is not None else True
        for worker in worker_names():
            try:
                url = self._sites.rest_url(worker) + flow_path(FLOW, "status")
                answer = httpx.get(url, verify=verify, trust_env=False)
                told[worker] = answer.json()
            except (httpx.HTTPError, ValueError) as error:
                told[worker] = str(error)
        path.write_text(json.dumps(told, indent=1))

    @property
    def _is_recreated(self) -> bool:
        return len(self._operators.written[REBORN.linked, 0]) > 1

    def link_state_problems(self) -> list[str]:
        """Linked partitions in another state than they must be in when all is well."""
        try:
            eventually(lambda: not self._wrong_states(), "linked partitions are well", within_s=STATE_DEADLINE_S)
        except NotInTime:
            return self._wrong_states()
        return []

    def _wrong_states(self) -> list[str]:
        reborn = LinkedPartitionState.SOURCE_RECREATED if self._is_recreated else LinkedPartitionState.RUNNING
        statuses = self._link.ask(link_status()).partitions
        missing = LINKED - {each.topic for each in statuses}
        return [
            *(f"the link has no topic {topic}" for topic in sorted(missing)),
            *(
                f"{each.topic}-{each.index} is {each.state}: {each.reason}"
                for each in statuses
                if each.state is not (reborn if each.topic == REBORN.linked else LinkedPartitionState.RUNNING)
            ),
        ]
