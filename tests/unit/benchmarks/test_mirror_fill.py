"""What topics to be mirrored are filled with."""

import pytest

from benchmarks.mirror_fill import BATCH_BYTES, records_per_batch, request_bodies
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION, read_produce_request
from ottla_core.wire.record_batch import iterate_batches


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("size", [1000, 100])
def test_batches_have_the_size_of_a_java_producers_on_the_wire(size: int, codec: str):
    for body in request_bodies("orders", 3, size, codec):
        request = read_produce_request(memoryview(body), 0, FIRST_FLEXIBLE_VERSION)
        (topic,) = request.topics
        assert [each.partition for each in topic.partitions] == [0, 1, 2]
        for each in topic.partitions:
            assert each.records is not None
            ((header, batch),) = iterate_batches(each.records)
            assert header.record_count == records_per_batch(size, codec)
            assert BATCH_BYTES * 0.75 < len(batch) < BATCH_BYTES * 1.25
