"""Where the present leader is, in the answer to a client that asked another broker (KIP-951). Pure.

Produce (from version 10) and Fetch (from version 16, the leader itself from 12) carry it in tagged fields, so that
the client needs no metadata request to find its way.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass

from ottla_core.wire.primitives import INT32, NO_TAGGED_FIELDS, array_length, string, tagged_fields

_LEADER = struct.Struct(">ii")
NODE_ENDPOINTS_TAG = 0


@dataclass(frozen=True, slots=True)
class CurrentLeader:
    """A partition's leader and leader epoch, -1 where unknown."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class NodeEndpoint:
    """Where a client reaches a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_current_leader(leader: CurrentLeader) -> bytes:
    """Return the value of the partition's `current_leader` field."""
    return _LEADER.pack(leader.leader_id, leader.leader_epoch) + NO_TAGGED_FIELDS


def encode_node_endpoints(endpoints: Collection[NodeEndpoint]) -> bytes:
    """Return the response's tagged fields, with `node_endpoints` if there are any."""
    if not endpoints:
        return NO_TAGGED_FIELDS
    encoded = [array_length(len(endpoints), flexible=True)]
    for endpoint in endpoints:
        encoded += (
            INT32.pack(endpoint.node_id),
            string(endpoint.host, flexible=True),
            INT32.pack(endpoint.port),
            string(endpoint.rack, flexible=True),
            NO_TAGGED_FIELDS,
        )
    return tagged_fields((NODE_ENDPOINTS_TAG, b"".join(encoded)))
