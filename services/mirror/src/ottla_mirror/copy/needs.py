"""What a partition needs before its copy goes on, and what an error of the target makes necessary. Pure."""

from enum import Enum, auto
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ottla_mirror.copy.refusals import Meaning, meaning_of


class Need(Enum):
    """What has to be done before a partition goes on.

    Attributes:
        LOOK: read what the target has of the session, and go on from the acknowledged position.
        LOOK_AT_RECORDS: likewise, with fingerprints of the records.
        NEW_SESSION: begin one of this worker's own at `Needed.source_offset`: both sides have parted there.
        OWN_SESSION: likewise, since what follows may not be sent in the present one.
        REFUSED: decide about the first batch, which the target does not take.
        DAMAGED: the source has something that cannot be read.
    """

    LOOK = auto()
    LOOK_AT_RECORDS = auto()
    NEW_SESSION = auto()
    OWN_SESSION = auto()
    REFUSED = auto()
    DAMAGED = auto()


class Needed(NamedTuple):
    """What has to be done, from which source offset on, and why."""

    need: Need
    source_offset: int
    reason: str


class Failure(NamedTuple):
    """Why a batch failed.

    Attributes:
        error: of the target; `none` if there was no answer.
        message: likewise, in words.
    """

    error: ErrorCode
    message: str


def needed_after(failure: Failure, acknowledged_end: int, failed_offset: int) -> Needed | None:
    """Return what the first error makes necessary; None if it may pass, so that the batch is sent again.

    Args:
        failure: of the first batch that failed.
        acknowledged_end: the source offset up to which everything is acknowledged.
        failed_offset: of the source, at which that batch begins.
    """
    meaning = meaning_of(failure.error)
    reason = f"{failure.error.name}{': ' if failure.message else ''}{failure.message}"
    if meaning is Meaning.LOOK:
        return Needed(Need.LOOK, acknowledged_end, reason)
    if meaning is Meaning.REFUSED:
        return Needed(Need.REFUSED, failed_offset, reason)
    return None
