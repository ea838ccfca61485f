"""What trials of all kinds are told, and what they tell."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.fault import Kind
from tests.faults.schedule import Schedule

PROBLEMS_SHOWN_MAX = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a trial is to be.

    Attributes:
        seed: decides the schedule and the load.
        directory: of data and logs; must not exist.
        seconds: how long faults happen.
        schedule: the faults, if they are not to be drawn from the seed.
        kinds: what may happen, as far as the machine lets it.
        programs: what Python runs instead of a role's service; of mirrors, instead of the target's and the workers'.
        loopback: whether to do without network namespaces where they could be had.
        secure: whether processes show each other and etcd certificates, and clients log in and need rights.
        exactly_once: whether mirror workers write in transactions.
    """

    seed: int
    directory: Path
    seconds: float = 55.0
    schedule: Schedule | None = None
    kinds: frozenset[Kind] = frozenset(Kind)
    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    loopback: bool = False
    secure: bool = False
    exactly_once: bool = False

    def command(self, *options: str) -> str:
        """The command that draws the same schedule for the same seed and runs it likewise.

        Args:
            options: those of this kind of trial only.
        """
        words = ["python", "-m", "tests.faults", *options]
        words += ["--secure"] if self.secure else []
        words += ["--loopback"] if self.loopback else []
        words += ["--kinds", *sorted(self.kinds)] if self.kinds != frozenset(Kind) else []
        return shlex.join(words)


@dataclass(slots=True)
class Outcome:
    """How a trial went.

    Attributes:
        command: which runs it again, see `Plan.command`.
        problems: promises that were not kept.
        counts: how much was tried.
    """

    seed: int
    schedule: Schedule
    directory: Path
    command: str
    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    took_s: float = 0.0

    def summary(self) -> str:
        """One line."""
        kinds = sorted(fault.kind for fault in self.schedule.faults)
        faults = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        counts = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        verdict = f"{len(self.problems)} PROBLEMS" if self.problems else "ok"
        return f"seed {self.seed}: {verdict}; {faults}; {counts}; {self.took_s:.0f} s"

    def report(self) -> str:
        """Everything that somebody needs to look for the reason of a failure."""
        shown = self.problems[:PROBLEMS_SHOWN_MAX]
        more = len(self.problems) - len(shown)
        return "\n".join(
            [
                self.summary(),
                "schedule:",
                str(self.schedule),
                "problems:",
                *(f"- {problem}" for problem in shown),
                *([f"- and {more} more"] if more > 0 else []),
                f"logs: {self.directory}/*/*.log",
                f"again, if the schedule is the seed's own: {self.command} --seed {self.seed} "
                f"--seconds {self.schedule.seconds:g}",
            ]
        )
