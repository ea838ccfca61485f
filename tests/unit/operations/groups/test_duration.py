"""How a length of time is written."""

import pytest

from ottla_operations.groups.duration import BadDuration, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("pt1h30m", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("90s", 90_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("1m500ms", 60_500),
        ("0s", 0),
    ],
)
def test_a_duration_is_read(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1", "h", "1h 30m", "1y", "P1M", "P1Y", "-1h", "1h30", "1hx"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(BadDuration, match="is no duration"):
        parse_duration_ms(text)
