"""What to tell those who type a secret as it is: others see the command line, and the shell's history keeps it. Pure.

For commands that take settings as KEY=VALUE. The secret has been shown by the time a command reads it, so it goes on;
the warning says how to write it the next time. It names settings, never values.
"""

import re
from collections.abc import Sequence
from typing import Final

from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.local_references import REFERENCE

_REFERENCE_OF_SERVICES: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")


def warning_of_secrets(option: str, assignments: Sequence[str], *, kept_by_services: bool = False) -> str | None:
    """Return what to say of secrets among KEY=VALUE pairs, in one line; None if each is a reference or not set.

    Args:
        option: the option by which they were given.
        assignments: the pairs; what is no pair is passed over.
        kept_by_services: whether brokers or workers keep them and look references up, rather than the command itself.
    """
    reference = _REFERENCE_OF_SERVICES if kept_by_services else REFERENCE
    pairs = (assignment.partition("=") for assignment in assignments)
    given = dict.fromkeys(key.strip() for key, _, value in pairs if value.strip() and not reference.search(value))
    secrets = [key for key in given if is_secret_setting(key)]
    if not secrets:
        return None
    one = secrets[0]
    way = (
        f"'{one}=${{provider:path:key}}', which a config provider looks up where the setting is used"
        if kept_by_services
        else f"'{one}=${{env:NAME}}' for a variable of the environment or '{one}=${{file:/path}}' for what a file "
        "holds, here or in a profile (`ottla profile create`)"
    )
    return (
        f"{option} {', '.join(secrets)}: a secret on a command line is seen by other users of this machine and kept "
        f"in the shell's history; write {way}"
    )
