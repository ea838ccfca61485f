"""Numbers in words for people. Pure."""


def human_bytes(count: float) -> str:
    """Return a byte count with a decimal unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(count: int, noun: str) -> str:
    """Return a number of things in words, such as ``1 partition`` or ``2 partitions``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
