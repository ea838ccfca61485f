"""Options of queries that read: what they mean, and that all that is wrong is said at once."""

import pytest

from ottla_sdk import InvalidConfig
from ottla_spark.datasource.options import (
    Assigned,
    Names,
    Pattern,
    QueryKind,
    ReadOptions,
    parse_duration_ms,
    read_options,
)
from ottla_spark.datasource.positions import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(kind: QueryKind = "batch", /, **options: str) -> ReadOptions:
    return read_options({**BROKER, "subscribe": "flights", **options}, kind=kind)


def problems(kind: QueryKind, options: dict[str, str]) -> list[str]:
    with pytest.raises(InvalidConfig) as raised:
        read_options(options, kind=kind)
    return [str(problem) for problem in raised.value.problems]


def test_a_batch_reads_all_there_is_and_a_stream_what_comes_from_now_on() -> None:
    assert read("batch").starting == Earliest()
    assert read("batch").ending == Latest()
    assert read("stream").starting == Latest()


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    options = read()
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.partitions_min, options.records_per_partition_max) == (None, None)
    assert options.poll_timeout_ms == 120_000
    assert (options.fetch_offset_attempts, options.fetch_offset_pause_ms) == (3, 1000)
    assert options.trigger_delay_max_ms == 15 * 60_000


def test_topics_are_named_matched_or_assigned() -> None:
    assert read(subscribe="a, b,,").topics == Names(frozenset({"a", "b"}))
    assert read_options({**BROKER, "subscribePattern": "fl.*"}, kind="batch").topics == Pattern("fl.*")
    assigned = read_options({**BROKER, "assign": '{"a":[0,2]}'}, kind="batch").topics
    assert assigned == Assigned(frozenset({("a", 0), ("a", 2)}))


def test_names_of_options_may_be_written_in_any_case() -> None:
    lower = read_options(
        {**BROKER, "subscribe": "t", "startingoffsets": "LATEST", "maxoffsetspertrigger": "5"}, kind="stream"
    )
    assert lower.starting == Latest()
    assert lower.offsets_per_trigger_max == 5


def test_offsets_are_written_per_partition() -> None:
    options = read("stream", startingOffsets='{"flights":{"0":23,"1":-1,"2":-2}}')
    assert options.starting == AtOffsets({("flights", 0): 23, ("flights", 1): -1, ("flights", 2): -2})


def test_a_timestamp_for_all_wins_over_timestamps_per_partition_and_those_over_offsets() -> None:
    offsets = {"startingOffsets": "earliest"}
    per_partition = {"startingOffsetsByTimestamp": '{"flights":{"0":1000}}'}
    assert read(**offsets, **per_partition).starting == AtTimestamps({("flights", 0): 1000})
    assert read(**offsets, **per_partition, startingTimestamp="5").starting == AtTimestamp(5)


def test_all_that_is_wrong_is_reported_at_once() -> None:
    found = problems(
        "batch",
        {
            "subscribe": "a",
            "assign": '{"a":[0]}',
            "startingOffsets": "latest",
            "endingOffsets": "earliest",
            "minPartitions": "0",
            "failOnDataLoss": "perhaps",
            "kafka.auto.offset.reset": "earliest",
        },
    )
    text = "\n".join(found)
    for expected in (
        "exactly one of the options subscribe, subscribePattern, assign",
        "startingOffsets: a batch cannot start at the latest",
        "endingOffsets: a batch cannot end at the earliest",
        "minPartitions: has to be a whole number of at least 1, got '0'",
        "failOnDataLoss: has to be true or false, got 'perhaps'",
        "kafka.auto.offset.reset",
        "kafka.bootstrap.servers",
    ):
        assert expected in text
    assert len(found) == 7, text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "exactly one of the options"),
        ({"subscribe": " , "}, "subscribe: names no topic"),
        ({"subscribePattern": "("}, "subscribePattern: is not a regular expression"),
        ({"subscribePattern": " "}, "subscribePattern: is empty"),
        ({"assign": "flights"}, "assign: expected JSON such as"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":-1}}'}, "a batch cannot start at the latest"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":"1"}}'}, "startingOffsets: has to be earliest, latest or"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"x":1}}'}, "startingOffsets: has to be earliest, latest or"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "a batch cannot end at the earliest"),
        ({"subscribe": "t", "startingTimestamp": "soon"}, "startingTimestamp: has to be a whole number"),
        ({"subscribe": "t", "startingOffsetsByTimestampStrategy": "x"}, "has to be error or latest, got 'x'"),
        ({"subscribe": "t", "maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition: has to be a whole number"),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":4}}'},
            "partition 0 of topic t starts after its end",
        ),
        (
            {"subscribe": "t", "startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"1":6}}'},
            "only one names t-0, t-1",
        ),
        (
            {"assign": '{"t":[0,1]}', "startingOffsets": '{"t":{"0":5}}'},
            "startingOffsets: has to name the partitions of assign (t-0, t-1)",
        ),
    ],
)
def test_a_batch_is_refused(options: dict[str, str], expected: str) -> None:
    (problem,) = problems("batch", {**BROKER, **options})
    assert expected in problem


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets: a stream has no end"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":1}}'}, "endingOffsetsByTimestamp: a stream has no end"),
        ({"endingTimestamp": "1"}, "endingTimestamp: a stream has no end"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}, "10 is more than maxOffsetsPerTrigger (9)"),
        ({"maxTriggerDelay": "1 week"}, "maxTriggerDelay: expected a duration"),
    ],
)
def test_a_stream_is_refused(options: dict[str, str], expected: str) -> None:
    (problem,) = problems("stream", {**BROKER, "subscribe": "t", **options})
    assert expected in problem


def test_options_that_nobody_knows_are_ignored() -> None:
    assert read(anything="x") == read()


def test_tasks_read_as_a_group_whose_name_has_the_prefix_or_is_given() -> None:
    assert read().consumer_settings["group.id"] == "ottla-spark-reader"
    assert read(groupIdPrefix="team").consumer_settings["group.id"] == "team-reader"
    assert read(**{"kafka.group.id": "own", "groupIdPrefix": "team"}).consumer_settings["group.id"] == "own"


@pytest.mark.parametrize(
    ("text", "duration_ms"), [("15m", 900_000), ("90s", 90_000), ("2min", 120_000), ("7", 7), ("1 h", 3_600_000)]
)
def test_durations_are_written_as_in_spark(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms
