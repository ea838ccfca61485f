"""`--set` of `ottla up`: settings for the services it starts.

`ROLE:KEY=VALUE` reaches every process of a role, `ROLE-ID:KEY=VALUE` one of them. Keys that the launcher itself
decides (addresses, ids) are refused, because the rest of the cluster counts on them. Keys that several roles
have to agree on (`SHARED_KEYS`) reach all of these, whichever of them they are set for.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla_operations.url_redaction import without_login
from ottla_sdk.kafka.secret_settings import is_secret_setting

ROLES = ("controller", "group-coordinator", "broker", "connect", "mirror", "console")
LISTENERS = "listeners"
"""Of brokers: what is set is listened to beside the address that the launcher counts on."""
LAUNCHER_KEYS = frozenset(
    {
        "node.id",
        "broker.id",
        LISTENERS,
        "rpc.listener",
        "metrics.listener",
        "etcd.endpoints",
        "bootstrap.servers",
        "standalone",
    }
)
SHARED_KEYS: Mapping[frozenset[str], frozenset[str]] = {
    frozenset({"broker", "controller"}): frozenset(
        {
            "default.replication.factor",
            "min.insync.replicas",
            "num.partitions",
            "traces.otlp.endpoint",
            "traces.otlp.headers",
            "traces.sample.ratio",
            "unclean.leader.election.enable",
        }
    ),
    frozenset({"broker", "controller", "group-coordinator"}): frozenset(
        {
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
            "group.consumer.max.session.timeout.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.session.timeout.ms",
        }
    ),
}
"""What several roles know, besides the settings that every process has for itself; a test compares."""
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

    @property
    def name(self) -> str:
        """What `--unset` takes: ``ROLE:KEY`` or ``ROLE-ID:KEY``."""
        return f"{self.role}:{self.key}" if self.node_id is None else f"{self.role}-{self.node_id}:{self.key}"

    @property
    def text(self) -> str:
        """What `--set` takes."""
        return f"{self.name}={self.value}"

    @property
    def shown(self) -> str:
        """What is shown: a secret is not."""
        return f"{self.name}=(hidden)" if is_secret_setting(self.key) else without_login(self.text)


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
    adds_listeners = (match["role"], match["key"]) == ("broker", LISTENERS)
    if match["key"] in LAUNCHER_KEYS and not adds_listeners:
        raise BadSetting(
            f"{match['key']} is decided by `ottla up`; see --base-port, --brokers, --connect, --mirror, --console, "
            "--etcd and --etcd-nodes, and for the pages of metrics `ottla status --json`"
        )
    node_id = None if match["id"] is None else int(match["id"])
    return Setting(match["role"], node_id, match["key"], match["value"].strip())


def settled_settings(
    remembered: Iterable[Setting], typed: Iterable[Setting], unset: Iterable[str]
) -> tuple[Setting, ...]:
    """Return the settings to start with: those of the last time, without those taken back, and those typed now.

    Raises:
        BadSetting: one that is to be taken back was not set.
    """
    found = {each.name: each for each in remembered}
    for name in unset:
        if name.strip() not in found:
            known = ", ".join(found) or "none"
            raise BadSetting(f"{name} was not set in this directory; set are: {known}")
        del found[name.strip()]
    for each in typed:
        # The last one that is typed wins, where it stands.
        found.pop(each.name, None)
        found[each.name] = each
    return tuple(found.values())


def settings_for(settings: Iterable[Setting], role: str, node_id: int | None) -> Mapping[str, str]:
    """Return the settings of one process, or of a whole role.

    One for the process wins over one for the role, and that over one that another sharing role is given.
    """
    matching = [each for each in settings if _reaches(each, role) and each.node_id in (None, node_id)]
    return {
        each.key: each.value
        for each in sorted(matching, key=lambda each: (each.role == role, each.node_id is not None))
    }


def _reaches(setting: Setting, role: str) -> bool:
    if setting.role == role:
        return True
    sharing = next((roles for roles, keys in SHARED_KEYS.items() if setting.key in keys), frozenset())
    return setting.node_id is None and setting.role in sharing and role in sharing


def check_settings(settings: Iterable[Setting], brokers: int) -> None:
    """See that settings can hold together in a cluster of this size.

    Raises:
        BadSetting: several brokers would listen at the same address, or tell clients the same, or a listener has the
            name of the launcher's.
    """
    for each in settings:
        if each.key not in ("advertised.listeners", LISTENERS) or each.role != "broker":
            continue
        if each.node_id is None and brokers > 1:
            raise BadSetting(
                f"each of {brokers} brokers needs an address of its own: broker-1:{each.key}={each.value}"
            )
        names = {listener.partition("://")[0].strip().upper() for listener in each.value.split(",")}
        if each.key == LISTENERS and "PLAINTEXT" in names:
            raise BadSetting(
                f"{each.text}: `ottla up` has a listener PLAINTEXT of its own; give this one another name"
            )


def properties_text(values: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    head = "# Written by `ottla up` at every start; change settings with its --set option.\n"
    return head + "".join(f"{key}={value}\n" for key, value in values.items())
