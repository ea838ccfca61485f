"""How commands are told how many bytes a mirror may copy per second."""

from typing import Final

from ottla_operations.errors import UsageProblem

NO_LIMIT: Final = "none"


def parse_rate(text: str) -> int | None:
    """Return bytes per second, or None for `NO_LIMIT`.

    Raises:
        UsageProblem: it is neither.
    """
    if text == NO_LIMIT:
        return None
    if not (text.isdecimal() and int(text) > 0):
        raise UsageProblem(f"{text}: write a whole number of bytes per second, or {NO_LIMIT}")
    return int(text)


def in_words(limit: int | None) -> str:
    """Return what has been done by setting a limit."""
    return "no longer throttled" if limit is None else "throttled"
