"""What a link's keeper says of its last rounds. Pure."""

from collections.abc import Sequence
from typing import Final

from ottla_core.cluster.controller_rpc.link_api import UNKNOWN, LinkKeeping, LinkProblem

PROBLEMS_TOLD_MAX: Final = 200
REASON_CHARACTERS_MAX: Final = 500


class KeepingReport:
    """The outcome of the last round of each kind.

    Attributes:
        link: its name.
        topics_ms: when the last round began that has looked at all topics, or `UNKNOWN`.
        groups_ms: likewise at all groups.
        failed_rounds: how many have failed since the start.
    """

    def __init__(self, link: str, broker_id: int) -> None:
        self.link = link
        self.topics_ms = UNKNOWN
        self.groups_ms = UNKNOWN
        self.failed_rounds = 0
        self._broker_id = broker_id
        self._topics: tuple[LinkProblem, ...] = ()
        self._groups: tuple[LinkProblem, ...] = ()
        self._group_count = 0
        self._failures: dict[str, str] = {}

    def topics_in_step(self, problems: Sequence[LinkProblem], began_ms: int) -> None:
        """Note a round of topics that has come to its end."""
        self._topics, self.topics_ms = tuple(problems), began_ms
        self._failures.pop("topics", None)

    def groups_in_step(self, problems: Sequence[LinkProblem], count: int, began_ms: int) -> None:
        """Note a round of groups that has come to its end."""
        self._groups, self._group_count, self.groups_ms = tuple(problems), count, began_ms
        self._failures.pop("groups", None)

    def failed(self, what: str, reason: str) -> None:
        """Note a round of `topics` or `groups` that has failed."""
        self._failures[what] = reason[:REASON_CHARACTERS_MAX]
        self.failed_rounds += 1

    def rests(self) -> None:
        """Note that the link is not kept for now, so that nothing fails either."""
        self._failures.clear()

    def told(self) -> LinkKeeping:
        """Return what is told of them; what somebody has to do something about comes first."""
        problems = sorted((*self._topics, *self._groups), key=lambda each: not each.kind.is_failure)
        return LinkKeeping(
            link=self.link,
            broker=self._broker_id,
            failure="; ".join(f"{what}: {reason}" for what, reason in sorted(self._failures.items())),
            topics_ms=self.topics_ms,
            groups_ms=self.groups_ms,
            groups=self._group_count,
            problems=tuple(problems[:PROBLEMS_TOLD_MAX]),
            problems_left_off=max(0, len(problems) - PROBLEMS_TOLD_MAX),
        )
