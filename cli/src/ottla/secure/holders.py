"""Who gets a certificate in a cluster, and what it says of each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.secure.authority import Subject
from ottla_core.rpc_identity import ADMIN, NAME_PATTERN, ROLES, RpcIdentity, RpcNames

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
ETCD: Final = "etcd"
ETCD_ROOT: Final = "etcd-root"
ETCD_ROOT_USER: Final = "root"
"""etcd's own name for who may do everything there."""
COUNTED_ROLES: Final = ("broker", "controller", "group-coordinator", "etcd", "connect", "mirror")
"""Of which there are several, each with a number."""


@dataclass(frozen=True, slots=True)
class ClusterHolders:
    """A cluster as certificates see it.

    Attributes:
        cluster: its name.
        counts: how many there are, by role of `COUNTED_ROLES`.
        administrator: the common name of the administrator's certificate.
        hosts: names and addresses of hosts by holder, such as ``broker-1``; others are on this machine.
        pattern: how processes are named (`rpc.tls.name`).
    """

    cluster: str
    counts: Mapping[str, int]
    administrator: str
    hosts: Mapping[str, Sequence[str]]
    pattern: str = NAME_PATTERN

    def subjects(self) -> dict[str, Subject]:
        """Return what each certificate says, by its holder, which is the name of its folder."""
        found: dict[str, Subject] = {}
        for role in COUNTED_ROLES:
            for number in range(1, self.counts.get(role, 0) + 1):
                holder = f"{role}-{number}"
                found[holder] = Subject(holder, (*self._own_name(role, number), *self.hosts_of(holder)))
        found[ADMIN] = Subject(self.administrator, self._own_name(ADMIN, 0))
        if self.counts.get(ETCD, 0):
            found[ETCD_ROOT] = Subject(ETCD_ROOT_USER)
        return found

    def hosts_of(self, holder: str) -> tuple[str, ...]:
        """Return the names and addresses under which a holder is reached."""
        return tuple(self.hosts.get(holder) or LOCAL_NAMES)

    def _own_name(self, role: str, number: int) -> tuple[str, ...]:
        """Return the name by which other processes know it; roles that are not called by gRPC have none."""
        if role not in ROLES:
            return ()
        return (RpcNames(self.pattern, self.cluster).name_of(RpcIdentity(role, number)),)
