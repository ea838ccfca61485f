"""What becomes of a log that this broker is to hold no longer."""

from enum import StrEnum


class LogDisposal(StrEnum):
    """The fate of a retired log's files; the value ends the name that their directory gets."""

    DELETE = "-delete"
    SET_ASIDE = "-stray"
