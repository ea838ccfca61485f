"""What to tell those who type a secret as it is: others see the command line, and the shell's history keeps it. Pure.

For commands that take settings as KEY=VALUE. The secret has been shown by the time a command reads it, so it goes on;
the warning says how to write it the next time. It names settings, never values.
"""

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.local_references import REFERENCE

_REFERENCE_OF_SERVICES: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")
_OF_ROLE: Final = re.compile(r"[a-z-]+(?:-[0-9]+)?:")


class UsedBy(Enum):
    """Whose settings they are, which decides how a secret gets there unseen."""

    COMMAND = auto()
    """The command's own clients; it looks references up itself."""
    CONFIG_PROVIDERS = auto()
    """Brokers or workers keep them, and look references up where they are used."""
    PROCESS = auto()
    """A process of the cluster, which takes secrets from files that its environment names."""


def warning_of_secrets(option: str, assignments: Sequence[str], *, used_by: UsedBy = UsedBy.COMMAND) -> str | None:
    """Return what to say of secrets among KEY=VALUE pairs, in one line; None if each is a reference or not set.

    Args:
        option: the option or command by which they were given.
        assignments: the pairs; what is no pair is passed over. Those of processes may begin with ``ROLE:``.
        used_by: whose settings they are.
    """
    reference = REFERENCE if used_by is UsedBy.COMMAND else _REFERENCE_OF_SERVICES
    pairs = (assignment.partition("=") for assignment in assignments)
    given = dict.fromkeys(key.strip() for key, _, value in pairs if value.strip() and not reference.search(value))
    secrets = [key for key in given if is_secret_setting(_OF_ROLE.sub("", key, count=1))]
    if not secrets:
        return None
    return (
        f"{option} {', '.join(secrets)}: a secret on a command line is seen by other users of this machine and kept "
        f"in the shell's history; {_safe_way(secrets[0], used_by)}"
    )


def _safe_way(key: str, used_by: UsedBy) -> str:
    """Return how a secret is given unseen."""
    if used_by is UsedBy.CONFIG_PROVIDERS:
        return f"write '{key}=${{provider:path:key}}', which a config provider looks up where the setting is used"
    if used_by is UsedBy.PROCESS:
        words = re.sub(r"[.-]", "_", _OF_ROLE.sub("", key, count=1)).upper()
        return (
            f"write it into a file, and 'OTTLA_{words}_FILE=/path' into the environment of the process, which it "
            "has from `ottla up`"
        )
    return (
        f"write '{key}=${{env:NAME}}' for a variable of the environment or '{key}=${{file:/path}}' for what a file "
        "holds, here or in a profile (`ottla profile create`)"
    )
