"""Keys go to the partitions to which Kafka's producer sends them."""

import pytest

from ottla_connect.state.key_partition import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "signed"),
    # The values of Kafka's own test of its hash (UtilsTest.testMurmur2).
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_clients(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % (1 << 32)


def test_a_partition_is_one_of_the_topics() -> None:
    assert {partition_of(str(number).encode(), 5) for number in range(100)} == set(range(5))
