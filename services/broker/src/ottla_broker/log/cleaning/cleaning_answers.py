"""What a cleaning process answers, a line of JSON each, as both sides see it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ottla_broker.log.compaction.segment_cleaning import CleanedSegment, MappedKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningEnded:
    """The job is done or has failed.

    Attributes:
        problem: why it failed, or None.
        is_permanent: it would fail again.
    """

    problem: str | None = None
    is_permanent: bool = False


Answer = MappedKeys | CleanedSegment | CleaningEnded

_KINDS: Final[Mapping[str, type[MappedKeys] | type[CleanedSegment] | type[CleaningEnded]]] = {
    kind.__name__: kind for kind in (MappedKeys, CleanedSegment, CleaningEnded)
}


def encode_answer(answer: Answer) -> bytes:
    """Return an answer as a line."""
    return json.dumps([type(answer).__name__, asdict(answer)]).encode() + b"\n"


def decode_answer(line: bytes) -> Answer:
    """Return the answer of a line."""
    kind: str
    fields: dict[str, Any]
    kind, fields = json.loads(line)
    return _KINDS[kind](**fields)
