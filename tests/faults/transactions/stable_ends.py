"""Whether the end of committed records, as leaders tell it, ever goes back. Pure.

What a reader of committed records may have read must not become undecided again when another broker leads. It would,
if a leader counted markers that its followers do not have yet.
"""

from collections.abc import Iterable, Iterator

from tests.faults.history import whole_lines

STABLE_END = "stable-end"


def receding_ends(lines: Iterable[str]) -> Iterator[str]:
    """Ends that were told later than greater ones; each was asked for after the one before had been told."""
    told: dict[tuple[str, str], int] = {}
    for what, topic, partition, offset, told_ns in whole_lines(lines):
        assert what == STABLE_END
        end = told.get((topic, partition), 0)
        if int(offset) < end:
            what_ended = f"the committed records of {topic}-{partition}"
            yield f"receded: {what_ended} ended at {end}, and then at {offset} ({told_ns})"
        told[topic, partition] = int(offset)
