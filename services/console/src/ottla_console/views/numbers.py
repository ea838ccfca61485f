"""Numbers as people read them: grouped digits, a unit, no more digits than mean something. Pure."""

from typing import Final

from ottla_operations.quantities import human_bytes

NOT_KNOWN: Final = "–"
NOT_YET: Final = "…"


def count_text(count: int | None) -> str:
    """Return a number with grouped digits."""
    return NOT_KNOWN if count is None else f"{count:,}"


def bytes_text(count: float | None) -> str:
    """Return a size with its unit."""
    return NOT_KNOWN if count is None else human_bytes(count)


def bytes_change_text(count: float) -> str:
    """Return by how much a size has changed, with its sign and unit."""
    return f"{'+' if count > 0 else '−' if count < 0 else ''}{human_bytes(abs(count))}"


def span_text(span_s: float) -> str:
    """Return a span of time, in the largest unit of which there are at least two."""
    whole = max(0, round(span_s))
    for unit, unit_s in (("hours", 3600), ("minutes", 60)):
        if whole >= 2 * unit_s:
            return f"{round(whole / unit_s)} {unit}"
    return f"{whole} {'second' if whole == 1 else 'seconds'}"


def rate_text(per_s: float | None) -> str:
    """Return a rate, by a second."""
    if per_s is None:
        return NOT_KNOWN
    if per_s == 0:
        return "0"
    if per_s < 10:
        return f"{per_s:.1f}"
    return f"{per_s:,.0f}"


def bytes_rate_text(per_s: float | None) -> str:
    """Return a rate of bytes, with its unit."""
    return NOT_KNOWN if per_s is None else f"{human_bytes(per_s)}/s"
