"""Errors of a mirror's own topics."""

from ottla_core.errors import OttlaError


class InternalTopicError(OttlaError):
    """A topic of the mirror's own cannot be made, written or read; the message names it and says why."""


class OffsetGone(InternalTopicError):
    """The topic does not have an offset that was to be read: it was cut, or records were deleted."""


class WrittenByNewerVersion(InternalTopicError):
    """A record has a format that only a later version of Ottla knows."""
