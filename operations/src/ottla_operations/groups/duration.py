"""A length of time as a person writes it: ``90s``, ``1h30m``, or ISO 8601 such as ``PT1H30M``. Pure."""

import re

UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"(?P<count>\d{1,15}(?:\.\d{1,9})?)(?P<unit>ms|[wdhms])")
_ISO = re.compile(
    r"P(?:(?P<w>\d{1,9})W)?(?:(?P<d>\d{1,9})D)?"
    r"(?:T(?=\d)(?:(?P<h>\d{1,9})H)?(?:(?P<m>\d{1,9})M)?(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)S)?)?"
)


class BadDuration(ValueError):
    """A text that is no length of time; the message shows the forms there are."""


def parse_duration_ms(text: str) -> int:
    """Return the milliseconds of a duration.

    Months and years are refused, because their length depends on when they begin.

    Raises:
        BadDuration: it is none of the forms.
    """
    parts = _iso_parts(text) or _short_parts(text)
    if not parts:
        raise BadDuration(f"{text} is no duration; write it as 90s, 1h30m, 2d or PT1H30M")
    return round(sum(count * UNIT_MS[unit] for count, unit in parts))


def _iso_parts(text: str) -> list[tuple[float, str]]:
    match = _ISO.fullmatch(text.upper())
    return [(float(count), unit) for unit, count in match.groupdict().items() if count] if match else []


def _short_parts(text: str) -> list[tuple[float, str]]:
    found = list(_PART.finditer(text))
    if "".join(match.group() for match in found) != text:
        return []
    return [(float(match["count"]), match["unit"]) for match in found]
