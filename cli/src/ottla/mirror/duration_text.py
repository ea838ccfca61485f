"""Times for people. Pure."""

MINUTE_S, HOUR_S = 60, 3600


def duration_text(seconds: float) -> str:
    """Return a time in its two largest units, such as ``3 min 20 s``."""
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    return f"{whole // HOUR_S} h {whole % HOUR_S // MINUTE_S} min"
