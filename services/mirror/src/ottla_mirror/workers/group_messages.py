"""What workers tell each other through the group: each its state when it joins, the leader everybody's share. Pure.

JSON, with partitions by flow and topic. Fields that a later version adds are passed over.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from ottla_core.errors import InvalidRecord
from ottla_mirror.workers.assignment import FlowPartition, MemberState, TopicNames, TopicOf, Work

PROTOCOL_TYPE: Final = "ottla-mirror"
PROTOCOL: Final = "sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the leader tells one worker.

    Attributes:
        work: what it copies.
        totals: how many partitions all workers copy, by flow.
        leader_url: where the leader's REST API is.
        worker_urls: where all workers' are.
        worker_keys: by which their requests are known.
    """

    work: Work = field(default_factory=Work)
    totals: Mapping[str, int] = field(default_factory=dict)
    leader_url: str = ""
    worker_urls: Sequence[str] = ()
    worker_keys: Sequence[str] = ()


def encode_state(state: MemberState) -> bytes:
    """Return what a worker says when it joins."""
    return _encode(
        {"url": state.url, "flows": sorted(state.flows), "held": _work_document(state.held), "key": state.key}
    )


def decode_state(data: bytes) -> MemberState:
    """Return what a worker has said.

    Raises:
        InvalidRecord: it is no such message.
    """
    try:
        document = json.loads(data)
        return MemberState(
            url=document["url"],
            flows=frozenset(document["flows"]),
            held=_work_of(document.get("held", {})),
            key=str(document.get("key", "")),
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidRecord(f"A worker says what is not understood: {error}") from error


def encode_assignment(assignment: Assignment) -> bytes:
    """Return what the leader says to a worker."""
    return _encode(
        {
            "work": _work_document(assignment.work),
            "totals": dict(assignment.totals),
            "leader_url": assignment.leader_url,
            "worker_urls": list(assignment.worker_urls),
            "worker_keys": list(assignment.worker_keys),
        }
    )


def decode_assignment(data: bytes) -> Assignment:
    """Return what the leader has said; nothing to do, if it has said nothing.

    Raises:
        InvalidRecord: it is no such message.
    """
    if not data:
        return Assignment()
    try:
        document = json.loads(data)
        return Assignment(
            work=_work_of(document["work"]),
            totals=document["totals"],
            leader_url=document["leader_url"],
            worker_urls=tuple(document["worker_urls"]),
            worker_keys=tuple(str(each) for each in document.get("worker_keys", ())),
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidRecord(f"The leader says what is not understood: {error}") from error


def _work_document(work: Work) -> dict[str, dict[str, list[Any]]]:
    document: dict[str, dict[str, list[Any]]] = {}
    for each in sorted(work.partitions):
        topics = document.setdefault(each.flow, {})
        if each.topic not in topics:
            names = work.names(each)
            topics[each.topic] = [names.topic_id.hex, names.remote_topic, []]
        topics[each.topic][2].append(each.partition)
    return document


def _work_of(document: Mapping[str, Mapping[str, Sequence[Any]]]) -> Work:
    partitions: set[FlowPartition] = set()
    topics: dict[TopicOf, TopicNames] = {}
    for flow, of_flow in document.items():
        for topic, (topic_id, remote, numbers) in of_flow.items():
            topics[TopicOf(flow, topic)] = TopicNames(UUID(hex=topic_id), remote)
            partitions.update(FlowPartition(flow, topic, int(number)) for number in numbers)
    return Work(frozenset(partitions), topics)


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
