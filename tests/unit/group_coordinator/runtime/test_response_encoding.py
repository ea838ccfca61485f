"""The responses that are written by hand are those that kio writes."""

import struct
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.group_responses import HEARTBEAT, OFFSET_COMMIT
from ottla_core.wire.messages import message_codec, newest_version, oldest_version
from ottla_core.wire.transaction_responses import ADD_PARTITIONS_TO_TXN, END_TXN
from ottla_group_coordinator.runtime.response_encoding import encode_response


def written(api_key: int, version: int, response: Any) -> tuple[bytes, bytes]:
    codec = message_codec(api_key, version)
    return encode_response(codec, api_key, version, 77, response), codec.encode_response(77, response)


def versions(api_key: int) -> range:
    return range(oldest_version(api_key), newest_version(api_key) + 1)


@pytest.mark.parametrize("version", versions(HEARTBEAT))
@pytest.mark.parametrize("class_version", versions(HEARTBEAT))
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.rebalance_in_progress, ErrorCode.unknown_server_error])
@pytest.mark.parametrize("throttle_ms", [0, 250])
def test_heartbeats(version: int, class_version: int, code: ErrorCode, throttle_ms: int) -> None:
    response = message_of(
        load_response_schema(HEARTBEAT, class_version),
        error_code=code,
        throttle_time=timedelta(milliseconds=throttle_ms),
    )
    by_hand, expected = written(HEARTBEAT, version, response)
    assert by_hand == expected


partitions = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.sampled_from([ErrorCode.none, ErrorCode.not_coordinator])), max_size=4
)


@given(st.sampled_from(versions(OFFSET_COMMIT)), st.dictionaries(st.text(max_size=130), partitions, max_size=4))
def test_offset_commits(version: int, topics: dict[str, list[tuple[int, ErrorCode]]]) -> None:
    by_hand, expected = written(OFFSET_COMMIT, version, commit_response(version, topics))
    assert by_hand == expected


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
@pytest.mark.parametrize("partition_count", [126, 127, 300])
@pytest.mark.parametrize("topic_count", [1, 126, 127, 300])
def test_large_offset_commits(version: int, topic_count: int, partition_count: int) -> None:
    topics = {f"topic-{number}": [(number, ErrorCode.none)] for number in range(topic_count)}
    topics["topic-0"] = [(number, ErrorCode.none) for number in range(partition_count)]
    by_hand, expected = written(OFFSET_COMMIT, version, commit_response(version, topics))
    assert by_hand == expected


@pytest.mark.parametrize("version", versions(END_TXN))
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.producer_fenced])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (2**62, 32766)])
def test_ends_of_transactions(version: int, code: ErrorCode, producer_id: int, epoch: int) -> None:
    response = message_of(
        load_response_schema(END_TXN, 5), error_code=code, producer_id=producer_id, producer_epoch=epoch
    )
    by_hand, expected = written(END_TXN, version, response)
    assert by_hand == expected


transactions = st.dictionaries(
    st.text(max_size=130), st.dictionaries(st.text(max_size=130), partitions, max_size=3), max_size=3
)


@given(st.sampled_from([4, 5]), transactions)
def test_partitions_that_are_added(version: int, added: dict[str, dict[str, list[tuple[int, ErrorCode]]]]) -> None:
    by_hand, expected = written(ADD_PARTITIONS_TO_TXN, version, added_response(added))
    assert by_hand == expected


@pytest.mark.parametrize("count", [126, 127, 300])
@pytest.mark.parametrize("what", ["transactions", "topics", "partitions"])
def test_many_partitions_that_are_added(what: str, count: int) -> None:
    counts = {"transactions": 1, "topics": 1, "partitions": 1, what: count}
    codes = [(index, ErrorCode.none) for index in range(counts["partitions"])]
    topics = {f"topic-{number}": codes for number in range(counts["topics"])}
    response = added_response({f"t-{number}": topics for number in range(counts["transactions"])})
    by_hand, expected = written(ADD_PARTITIONS_TO_TXN, 5, response)
    assert by_hand == expected


@given(st.sampled_from([0, 1, 2, 3]), st.dictionaries(st.text(max_size=130), partitions, max_size=3))
def test_partitions_that_clients_add(version: int, topics: dict[str, list[tuple[int, ErrorCode]]]) -> None:
    response = load_response_schema(ADD_PARTITIONS_TO_TXN, version)
    topic = item_type(response, "results_by_topic_v3_and_below")
    partition = item_type(topic, "results_by_partition")
    results = tuple(
        message_of(
            topic,
            name=name,
            results_by_partition=tuple(
                message_of(partition, partition_index=index, partition_error_code=code) for index, code in codes
            ),
        )
        for name, codes in topics.items()
    )
    by_hand, expected = written(
        ADD_PARTITIONS_TO_TXN, version, message_of(response, results_by_topic_v3_and_below=results)
    )
    assert by_hand == expected


def added_response(added: dict[str, dict[str, list[tuple[int, ErrorCode]]]]) -> Any:
    response = load_response_schema(ADD_PARTITIONS_TO_TXN, 5)
    result = item_type(response, "results_by_transaction")
    topic = item_type(result, "topic_results")
    partition = item_type(topic, "results_by_partition")
    return message_of(
        response,
        results_by_transaction=tuple(
            message_of(
                result,
                transactional_id=transactional_id,
                topic_results=tuple(
                    message_of(
                        topic,
                        name=name,
                        results_by_partition=tuple(
                            message_of(partition, partition_index=index, partition_error_code=code)
                            for index, code in codes
                        ),
                    )
                    for name, codes in topics.items()
                ),
            )
            for transactional_id, topics in added.items()
        ),
    )


def test_the_length_counts_what_follows_it() -> None:
    by_hand, _ = written(HEARTBEAT, 4, message_of(load_response_schema(HEARTBEAT, 4)))
    assert struct.unpack_from(">ii", by_hand) == (len(by_hand) - 4, 77)


def commit_response(version: int, topics: dict[str, list[tuple[int, ErrorCode]]]) -> Any:
    response = load_response_schema(OFFSET_COMMIT, version)
    topic = item_type(response, "topics")
    partition = item_type(topic, "partitions")
    return message_of(
        response,
        topics=tuple(
            message_of(
                topic,
                name=name,
                partitions=tuple(
                    message_of(partition, partition_index=index, error_code=code) for index, code in indexes
                ),
            )
            for name, indexes in topics.items()
        ),
    )
