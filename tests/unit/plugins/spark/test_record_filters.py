"""Which ranges are read where conditions leave records out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.datasource.cluster_offsets import ClusterOffsets
from ottla_spark.datasource.options import read_options
from ottla_spark.datasource.record_filters import (
    OPERATORS,
    Comparison,
    as_text,
    first_time_ms,
    narrowed,
    parse_comparisons,
    wanted_partitions,
)

SMALL = st.integers(0, 12)
COMPARISONS = st.lists(
    st.builds(Comparison, st.sampled_from(["partition", "offset", "timestamp"]), st.sampled_from(OPERATORS), SMALL)
)
LOGS = st.dictionaries(st.integers(0, 3), st.lists(SMALL, max_size=8), min_size=1)
"""The timestamps of the records of each partition, in any order."""


def fulfils(record: dict[str, int], condition: Comparison) -> bool:
    value, other = record[condition.column], condition.value
    found = {"=": value == other, "<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}
    return found[condition.operator]


@given(LOGS, COMPARISONS)
def test_no_record_that_fulfils_all_conditions_is_left_out(
    logs: dict[int, list[int]], comparisons: list[Comparison]
) -> None:
    ends = {("t", number): len(times) for number, times in logs.items()}
    wanted = wanted_partitions(ends, comparisons)
    time = first_time_ms(comparisons)
    first = {
        each: next((offset for offset, at in enumerate(logs[each[1]]) if at >= time), ends[each])
        for each in (wanted if time is not None else ())
    }
    start, end = narrowed(dict.fromkeys(wanted, 0), ends, comparisons, first)
    for number, times in logs.items():
        for offset, at in enumerate(times):
            record = {"partition": number, "offset": offset, "timestamp": at}
            if all(fulfils(record, each) for each in comparisons):
                assert start["t", number] <= offset < end["t", number]
    assert all(0 <= start[each] <= end[each] or end[each] == start[each] for each in start)


def test_ranges_are_as_narrow_as_offsets_and_the_first_time_allow() -> None:
    comparisons = [
        Comparison("partition", ">=", 1),
        Comparison("offset", ">", 10),
        Comparison("offset", "<=", 20),
        Comparison("timestamp", ">=", 1000),
        Comparison("timestamp", "<", 2000),
    ]
    log = {("t", number): 100 for number in range(3)}
    assert wanted_partitions(log, comparisons) == {("t", 1), ("t", 2)}
    assert first_time_ms(comparisons) == 1000
    start, end = narrowed({("t", 1): 0, ("t", 2): 0}, log, comparisons, {("t", 1): 5, ("t", 2): 15})
    assert (start, end) == ({("t", 1): 11, ("t", 2): 15}, {("t", 1): 21, ("t", 2): 21})


@given(COMPARISONS)
def test_conditions_are_kept_as_text(comparisons: list[Comparison]) -> None:
    assert parse_comparisons(as_text(comparisons)) == tuple(comparisons)


@pytest.mark.parametrize("text", ["", "{}", '[["offset", ">="]]', '[["key", "=", 1]]', '[["offset", "~", 1]]', "[1]"])
def test_what_is_no_condition_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="expected JSON such as"):
        parse_comparisons(text)


def test_brokers_are_not_asked_for_a_time_before_which_they_find_nothing() -> None:
    options = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}, kind="batch")
    partitions = frozenset({("t", 0)})
    assert ClusterOffsets(options).first_from(-1, partitions) == {}, "a record without a time has the time -1"
