"""Whether the source's groups have at the target the offsets that an independent count of the records gives."""

import zlib

from confluent_kafka import ConsumerGroupTopicPartitions, Message
from confluent_kafka.admin import AdminClient

from tests.faults.checker import FinalContents
from tests.faults.cluster_view import ClusterView
from tests.faults.history import Content
from tests.faults.mirrors.sites import Sites
from tests.faults.topics import GROUP_LOAD_TOPIC, PARTITIONS, copy_name
from tests.support.eventually import NotInTime, eventually

ASK_TIMEOUT_S = 10.0
Committed = dict[tuple[str, int], int]
"""Offsets by group and partition."""


def raw_content(message: Message) -> Content:
    """What a record is that nobody has numbered: the checksum of its value."""
    value = message.value() or b""
    return Content("", 0, zlib.crc32(value if isinstance(value, bytes) else value.encode()))


def synced_group_problems(sites: Sites, *, within_s: float) -> list[str]:
    """Records of the groups' topic that are not in the copy, and groups with other offsets; the load has ended."""
    remote = copy_name(GROUP_LOAD_TOPIC)
    source = ClusterView(sites.source).read_partitions(_partitions(GROUP_LOAD_TOPIC), raw_content)
    target = ClusterView(sites.target).read_partitions(_partitions(remote), raw_content)
    problems = []
    for index in range(PARTITIONS):
        here, there = source[GROUP_LOAD_TOPIC, index], target[remote, index]
        if [content for _, content in here] != [content for _, content in there]:
            problems.append(f"{remote}-{index} has {len(there)} records, the source {len(here)}, or others")
    if problems:
        return problems
    committed = _committed(AdminClient({"bootstrap.servers": sites.source.bootstrap}), GROUP_LOAD_TOPIC)
    if not committed:
        return ["no group has committed anything at the source"]
    wanted = {place: _counted(place[1], offset, source, target) for place, offset in committed.items()}
    admin = AdminClient({"bootstrap.servers": sites.target.bootstrap})
    try:
        eventually(lambda: _committed(admin, remote) == wanted, "groups are at the target", within_s=within_s)
    except NotInTime:
        found = _committed(admin, remote)
        return [
            f"{group} has offset {found.get((group, index))} in {remote}-{index}; by count it is {offset}"
            for (group, index), offset in sorted(wanted.items())
            if found.get((group, index)) != offset
        ]
    return []


def _partitions(topic: str) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(PARTITIONS)]


def _counted(index: int, offset: int, source: FinalContents, target: FinalContents) -> int:
    """The target's offset of the record behind as many others as the source has before an offset."""
    before = sum(at < offset for at, _ in source[GROUP_LOAD_TOPIC, index])
    there = target[copy_name(GROUP_LOAD_TOPIC), index]
    if before < len(there):
        return there[before][0]
    return there[-1][0] + 1 if there else 0


def _committed(admin: AdminClient, topic: str) -> Committed:
    """All groups' offsets of a topic."""
    listed = admin.list_consumer_groups(request_timeout=ASK_TIMEOUT_S).result().valid or ()
    found: Committed = {}
    for group in [each.group_id for each in listed]:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = admin.list_consumer_group_offsets(request, request_timeout=ASK_TIMEOUT_S)[group].result()
        told = [each for each in answer.topic_partitions or () if each.topic == topic]
        found |= {(group, each.partition): each.offset for each in told if each.offset >= 0}
    return found
