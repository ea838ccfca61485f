"""Offsets as they are typed."""

import pytest

from ottla.connect.offset_arguments import BadOffset, parse_offset_document, parse_sink_offsets


def test_a_sinks_offsets_are_typed_as_topic_partition_offset():
    assert parse_sink_offsets(["flights:0=1000", "a:b:1=none"]) == [
        {"partition": {"kafka_topic": "flights", "kafka_partition": 0}, "offset": {"kafka_offset": 1000}},
        {"partition": {"kafka_topic": "a:b", "kafka_partition": 1}, "offset": None},
    ]


@pytest.mark.parametrize("text", ["flights", "flights=1", "flights:0", "flights:x=1", ":0=1", "t:0=x", "t:0=-1", ""])
def test_anything_else_is_refused(text):
    with pytest.raises(BadOffset, match=text or "TOPIC"):
        parse_sink_offsets([text])


def test_a_document_is_what_is_shown():
    offsets = [{"partition": {"filename": "x"}, "offset": {"position": 1}}]
    assert (
        parse_offset_document('{"offsets": [{"partition": {"filename": "x"}, "offset": {"position": 1}}]}') == offsets
    )
    assert parse_offset_document('[{"partition": {"filename": "x"}, "offset": {"position": 1}}]') == offsets


@pytest.mark.parametrize("text", ["", "{}", "5", '{"offsets": [1]}', '[{"offset": {}}]', "[" * 100_000])
def test_other_documents_are_refused(text):
    with pytest.raises(BadOffset):
        parse_offset_document(text)
