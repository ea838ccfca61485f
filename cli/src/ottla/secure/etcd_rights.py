"""The users of etcd that a cluster needs, and what each may do there. Pure.

A user is the process whose certificate has its name as common name, and has no password. Every process may read all
of the cluster's state; controllers may write it, and each broker and group coordinator its own registration only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.secure.holders import ETCD_ROOT_USER
from ottla_core.cluster.etcd.key_range import range_end
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import Role

_PREFIX: Final = "ottla-"
FIRST_KEY: Final = "\0"
"""Where a process reads the store's revision; nobody writes it."""


@dataclass(frozen=True, slots=True)
class Right:
    """What may be done with a key, or with all keys that begin with it."""

    key: str
    is_prefix: bool
    may_write: bool

    @property
    def range_end(self) -> bytes:
        """The end of the range, as etcd takes it; empty for one key."""
        return range_end(self.key) if self.is_prefix else b""


def rights_of(role: Role, number: int, cluster: str) -> tuple[Right, ...]:
    """Return what a process may do."""
    keys = KeySpace(cluster)
    revision = Right(FIRST_KEY, is_prefix=False, may_write=False)
    if role is Role.CONTROLLER:
        return (revision, Right(keys.prefix, is_prefix=True, may_write=True))
    return (
        revision,
        Right(keys.prefix, is_prefix=True, may_write=False),
        Right(keys.member(role, number), is_prefix=False, may_write=True),
    )


def users_of(cluster: str, counts: Mapping[str, int]) -> dict[str, tuple[Right, ...]]:
    """Return the rights of every process of a cluster, by the user that it is to etcd; `root` may do everything."""
    return {
        f"{role.value}-{number}": rights_of(role, number, cluster)
        for role in Role
        for number in range(1, counts.get(role.value, 0) + 1)
    }


def role_of(user: str, cluster: str) -> str:
    """Return the name of etcd's role for a user, which is for one cluster."""
    return user if user == ETCD_ROOT_USER else f"{_PREFIX}{cluster}-{user}"


def is_of_cluster(role: str) -> bool:
    """Return whether a role of etcd is for a process of some cluster."""
    return role.startswith(_PREFIX)
