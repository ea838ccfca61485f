"""The compares and operations that etcd transactions are made of, as short constructors. Pure."""

from ottla_core.cluster.etcd.key_range import range_end
from ottla_proto.gen.etcd.rpc_pb2 import Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp

MAX_TRANSACTION_OPERATIONS = 128
"""etcd refuses transactions with more operations than this, by default."""

ABSENT = 0
"""The revision of a key that does not exist, in compares."""


def created_at(key: str, create_revision: int) -> Compare:
    """The key was created at this revision and not deleted since; `ABSENT`: it does not exist."""
    return Compare(key=key.encode(), target=Compare.CREATE, result=Compare.EQUAL, create_revision=create_revision)


def exists(key: str) -> Compare:
    """The key exists."""
    return Compare(key=key.encode(), target=Compare.CREATE, result=Compare.GREATER, create_revision=ABSENT)


def modified_at(key: str, mod_revision: int) -> Compare:
    """The key was last written at this revision; `ABSENT`: it does not exist."""
    return Compare(key=key.encode(), target=Compare.MOD, result=Compare.EQUAL, mod_revision=mod_revision)


def none_below(prefix: str) -> Compare:
    """No key begins with `prefix`."""
    return none_created_after(prefix, ABSENT)


def none_created_after(prefix: str, revision: int) -> Compare:
    """Every key that begins with `prefix` was created at this revision or before."""
    return Compare(
        key=prefix.encode(),
        range_end=range_end(prefix),
        target=Compare.CREATE,
        result=Compare.LESS,
        create_revision=revision + 1,
    )


def put(key: str, value: bytes, lease_id: int = 0) -> RequestOp:
    """Write a key, attached to a lease unless that is 0."""
    return RequestOp(request_put=PutRequest(key=key.encode(), value=value, lease=lease_id))


def touch(key: str) -> RequestOp:
    """Give a key a new mod revision, its value and lease unchanged."""
    return RequestOp(request_put=PutRequest(key=key.encode(), ignore_value=True, ignore_lease=True))


def delete(key: str) -> RequestOp:
    """Delete a key."""
    return RequestOp(request_delete_range=DeleteRangeRequest(key=key.encode()))


def read(key: str) -> RequestOp:
    """Read a key."""
    return RequestOp(request_range=RangeRequest(key=key.encode()))
