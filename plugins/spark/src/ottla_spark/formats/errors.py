"""What is raised when a format cannot do what is asked of it."""

from ottla_sdk import FatalError


class UnusableFormat(FatalError):
    """A format cannot read or write these columns, this schema or this topic; trying again is of no use."""
