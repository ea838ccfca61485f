"""Which process a certificate stands for: its role and id, as a DNS name among its subject alternative names. Pure.

A name such as ``broker-1.flights.ottla`` is made of a pattern (`rpc.tls.name`), which both sides know. The side
that dials looks for the name of whom it wants, as it would for a host's name; the side that accepts reads from the
name who calls. Any authority can issue such certificates, and whoever has names of another form changes the pattern.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
GROUP_COORDINATOR: Final = "group-coordinator"
ADMIN: Final = "admin"
ROLES: Final = (BROKER, CONTROLLER, GROUP_COORDINATOR, ADMIN)
"""What a certificate may be for; an administrator asks for the health of processes, with the command."""
ROLE_FIELD: Final = "{role}"
ID_FIELD: Final = "{id}"
CLUSTER_FIELD: Final = "{cluster}"
NAME_PATTERN: Final = "{role}-{id}.{cluster}.ottla"
_LITERAL = re.compile(r"[A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class RpcIdentity:
    """One process of the cluster, by its role and its id among those of the role."""

    role: str
    id: int

    def __str__(self) -> str:
        """Return it as messages name it."""
        return f"{self.role} {self.id}"


@dataclass(frozen=True, slots=True)
class RpcNames:
    """The names of a cluster's processes in certificates.

    Attributes:
        pattern: with ``{role}`` and ``{id}``, and ``{cluster}`` where several clusters share an authority.
        cluster: what stands for ``{cluster}``.
    """

    pattern: str
    cluster: str

    def name_of(self, identity: RpcIdentity) -> str:
        """Return the name that a process's certificate has to have."""
        named = self.pattern.replace(CLUSTER_FIELD, self.cluster).replace(ROLE_FIELD, identity.role)
        return named.replace(ID_FIELD, str(identity.id)).lower()

    def identities(self, dns_names: Iterable[str]) -> frozenset[RpcIdentity]:
        """Return the processes that names stand for; other names, such as those of hosts, are passed over."""
        escaped = re.escape(self.pattern.replace(CLUSTER_FIELD, self.cluster))
        roles = "|".join(map(re.escape, ROLES))
        expression = escaped.replace(re.escape(ROLE_FIELD), f"(?P<role>{roles})")
        expression = expression.replace(re.escape(ID_FIELD), "(?P<id>0|[1-9][0-9]{0,9})")
        found = (re.fullmatch(expression, name, re.IGNORECASE) for name in dns_names)
        return frozenset(RpcIdentity(each["role"].lower(), int(each["id"])) for each in found if each)


def check_pattern(pattern: str) -> str:
    """Return a pattern that can be used.

    Raises:
        ValueError: it does not tell processes apart, or no certificate can have such names.
    """
    if pattern.count(ROLE_FIELD) != 1 or pattern.count(ID_FIELD) != 1 or pattern.count(CLUSTER_FIELD) > 1:
        raise ValueError(f"write {ROLE_FIELD} and {ID_FIELD} once each, as in {NAME_PATTERN}")
    rest = pattern.replace(ROLE_FIELD, "").replace(ID_FIELD, "").replace(CLUSTER_FIELD, "")
    if not _LITERAL.fullmatch(rest):
        raise ValueError("besides its fields it may have letters, digits, dots, hyphens and underscores")
    if ROLE_FIELD + ID_FIELD in pattern or ID_FIELD + ROLE_FIELD in pattern:
        raise ValueError(f"put a hyphen or a dot between {ROLE_FIELD} and {ID_FIELD}")
    return pattern
