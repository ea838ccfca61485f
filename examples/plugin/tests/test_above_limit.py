"""What AboveLimit says of values, and the tests that every predicate passes."""

import pytest

from ottla_example_limits.above_limit import AboveLimit
from ottla_sdk import ConnectRecord, DataError
from ottla_sdk.conformance import predicate_suite

SETTINGS = {"field": "delay", "limit": "60"}


def record(value: object) -> ConnectRecord:
    """A record with a value."""
    return ConnectRecord(topic="flights", value=value)


TestAboveLimit = predicate_suite(
    AboveLimit,
    cases=[
        (SETTINGS, record({"delay": 61}), True),
        (SETTINGS, record({"delay": 60}), False),
        (SETTINGS, record({"delay": None}), False),
        ({"field": "delay", "limit": "-1.5"}, record({"delay": -1}), True),
    ],
)


@pytest.mark.parametrize("value", [None, "text", {}, {"delay": "61"}, {"delay": True}])
def test_a_value_without_a_number_is_bad_data(value: object) -> None:
    predicate = AboveLimit()
    predicate.configure(SETTINGS)
    with pytest.raises(DataError):
        predicate.test(record(value))
