"""Messages are found in a stream however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_connect.processes.frames import FrameReader, FrameTooLong


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(1, 60))
def test_messages_come_out_as_they_went_in(texts: list[bytes], part_size: int) -> None:
    stream = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
    reader = FrameReader()
    found = [text for at in range(0, len(stream), part_size) for text in reader.feed(stream[at : at + part_size])]
    assert found == texts


def test_a_length_beyond_any_message_is_refused_before_it_is_received() -> None:
    with pytest.raises(FrameTooLong, match="a message of 101 bytes, more than 100"):
        list(FrameReader(bytes_max=100).feed(b"\0\0\0\x65"))
