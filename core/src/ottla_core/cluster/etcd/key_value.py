"""etcd's keys and values as plain data, so that pure code can work on them without the gRPC client. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """One key as it stood at some revision.

    Attributes:
        create_revision: revision of the write that created the key.
        mod_revision: revision of the last write to the key.
        lease_id: lease that the key is attached to, or 0.
    """

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDeletion:
    """A key was deleted at `mod_revision`."""

    key: str
    mod_revision: int


KeyChange = KeyValue | KeyDeletion
