"""Offsets of sinks, as users write them."""

import pytest

from ottla_connect.sink_offset_documents import OffsetsMalformed, sink_offsets
from ottla_sdk import TopicPartition


def test_offsets_are_read_as_rest_writes_them():
    assert sink_offsets(
        [
            ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}),
            ({"kafka_topic": "t", "kafka_partition": "1"}, {"kafka_offset": "7"}),
            ({"kafka_topic": "t", "kafka_partition": 2}, None),
        ]
    ) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7, TopicPartition("t", 2): None}


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({"kafka_topic": "t"}, None, "given by 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": None, "kafka_partition": 1}, None, "kafka_topic is missing"),
        ({"kafka_topic": "t", "kafka_partition": "one"}, None, "kafka_partition must be a whole number"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"offset": 4}, "has the key 'kafka_offset'"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": -4}, "kafka_offset must be a whole number"),
        ({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": True}, "kafka_offset must be a whole number"),
    ],
)
def test_malformed_offsets_are_told(partition, offset, message):
    with pytest.raises(OffsetsMalformed, match=message):
        sink_offsets([(partition, offset)])
