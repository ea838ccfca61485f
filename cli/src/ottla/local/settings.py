"""`--set` of `ottla up`: settings for the services it starts.

`ROLE:KEY=VALUE` reaches every process of a role, `ROLE-ID:KEY=VALUE` one of them. Keys that the launcher itself
decides (addresses, ids) are refused, because the rest of the cluster counts on them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ROLES = ("controller", "group-coordinator", "broker", "connect")
LAUNCHER_KEYS = frozenset(
    {
        "node.id",
        "broker.id",
        "listeners",
        "advertised.listeners",
        "rpc.listener",
        "metrics.listener",
        "etcd.endpoints",
        "bootstrap.servers",
        "standalone",
    }
)
_ASSIGNMENT = re.compile(r"(?P<role>[a-z]+(-[a-z]+)*)(-(?P<id>[0-9]+))?:(?P<key>[^=\s]+)\s*=(?P<value>[^\n\r]*)")


class BadSetting(ValueError):
    """A `--set` that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One `--set`.

    Attributes:
        role: one of `ROLES`.
        node_id: the one process it is for, or None for all of the role.
    """

    role: str
    node_id: int | None
    key: str
    value: str


def parse_setting(text: str) -> Setting:
    """Read one `--set` value.

    Raises:
        BadSetting: it has no known role, no key, or names what the launcher decides.
    """
    match = _ASSIGNMENT.fullmatch(text.strip())
    if match is None or match["role"] not in ROLES:
        role, rest = next(
            ((role, text.removeprefix(f"{role}.")) for role in ROLES if text.startswith(f"{role}.")), ("broker", text)
        )
        raise BadSetting(
            f"write a setting as ROLE:KEY=VALUE, for example {role}:{rest if '=' in rest else 'KEY=VALUE'}"
        )
    if match["key"] in LAUNCHER_KEYS:
        raise BadSetting(
            f"{match['key']} is decided by `ottla up`; see --base-port, --brokers, --connect, --etcd and --etcd-nodes"
        )
    node_id = None if match["id"] is None else int(match["id"])
    return Setting(match["role"], node_id, match["key"], match["value"].strip())


def settings_for(settings: Iterable[Setting], role: str, node_id: int | None) -> Mapping[str, str]:
    """Return the settings of one process, or of a whole role; one for the process wins over one for the role."""
    matching = [each for each in settings if each.role == role and each.node_id in (None, node_id)]
    return {each.key: each.value for each in sorted(matching, key=lambda each: each.node_id is not None)}


def properties_text(values: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    head = "# Written by `ottla up` at every start; change settings with its --set option.\n"
    return head + "".join(f"{key}={value}\n" for key, value in values.items())
