"""What a flow may take of a worker's memory."""

from ottla_mirror.workers.memory_shares import SHARE_BYTES_MIN, MemoryShares

MEBIBYTE = 1024 * 1024


def test_flows_have_equal_shares_of_the_whole_however_they_came():
    memory = MemoryShares(120 * MEBIBYTE)
    assert memory.share_bytes == 120 * MEBIBYTE
    for number in range(3):
        memory.join(f"flow-{number}")
    memory.join("flow-2")
    assert memory.share_bytes == 40 * MEBIBYTE
    memory.leave("flow-0")
    memory.leave("flow-0")
    assert memory.share_bytes == 60 * MEBIBYTE


def test_a_share_is_never_too_small_to_fetch_with():
    memory = MemoryShares(8 * MEBIBYTE)
    for number in range(100):
        memory.join(number)
    assert memory.share_bytes == SHARE_BYTES_MIN
