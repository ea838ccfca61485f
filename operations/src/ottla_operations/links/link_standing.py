"""How links stand, as any broker of the cluster that follows tells."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla_operations.errors import OperationError

if TYPE_CHECKING:
    from ottla_core.client.links import LinkStatus
    from ottla_core.cluster.controller_rpc.link_api import DescribedLink, LinkKeeping
    from ottla_operations.links.link_admin import LinkAdmin

WORKING: Final = frozenset({"RUNNING", "PAUSED"})
"""The states of linked partitions in which nothing is wrong."""


def described_links(admin: "LinkAdmin", names: Sequence[str]) -> "Sequence[DescribedLink]":
    """Return links, or all without names.

    Raises:
        OperationError: there is none of a name.
    """
    from ottla_core.client.links import describe_links  # noqa: PLC0415

    found = admin.ask(describe_links(names)).links
    if missing := set(names) - {each.link.name for each in found}:
        raise OperationError(f"there is no link {min(missing)}")
    return found


def status_of_links(admin: "LinkAdmin", names: Sequence[str]) -> "LinkStatus":
    """Return how far the partitions of links have come; errors as with `described_links`."""
    from ottla_core.client.links import link_status  # noqa: PLC0415

    if names:
        described_links(admin, names)
    return admin.ask(link_status(names))


def problem_lines(keeping: "LinkKeeping") -> list[str]:
    """Return what of a link is not as in its source, one line for each."""
    lines = [f"{keeping.link}: not in step: {keeping.failure}"] if keeping.failure else []
    lines += [f"{keeping.link}: {each.kind.value} {each.name}: {each.reason}" for each in keeping.problems]
    if keeping.problems_left_off:
        lines.append(f"{keeping.link}: and {keeping.problems_left_off} more")
    return lines


def fails(keeping: "LinkKeeping") -> bool:
    """Return whether something of a link is not as in its source, against everybody's will."""
    return bool(keeping.failure) or any(each.kind.is_failure for each in keeping.problems)
