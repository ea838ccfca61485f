"""Dead letters: what their headers say, and what of them is sent again."""

import pytest

from ottla_console.views.dead_letter import (
    TEXT_MAX,
    NotSendable,
    dead_letter,
    masked_letter,
    sent_again,
    source_topics,
)
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import How, Masking, MaskingRule, masked_field

CONTEXT = [
    ("__connect.errors.topic", b"flights"),
    ("__connect.errors.partition", b"3"),
    ("__connect.errors.offset", b"170"),
    ("__connect.errors.connector.name", b"archive"),
    ("__connect.errors.task.id", b"1"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.class.name", b"JsonConverter"),
    ("__connect.errors.exception.class.name", b"DataError"),
    ("__connect.errors.exception.message", b"no JSON: <script>\x1b[31m"),
    ("__connect.errors.exception.stacktrace", b"first\nsecond\x07"),
]
LETTER = Record(value=b"{", key=b"k", headers=(("trace", b"4711"), *CONTEXT), partition=0, offset=9)


def without(name: str) -> Record:
    headers = tuple(each for each in LETTER.headers if each[0] != f"__connect.errors.{name}")
    return Record(value=b"{", headers=headers)


def replaced(name: str, value: bytes | None) -> Record:
    return Record(value=b"{", headers=(*LETTER.headers, (f"__connect.errors.{name}", value)))


def test_the_headers_are_told_in_words() -> None:
    letter = dead_letter(LETTER)
    assert (letter.topic, letter.partition, letter.offset) == ("flights", 3, 170)
    assert letter.reason == "its value could not be converted: no JSON: <script>\\x1b[31m"
    assert letter.trace == "first\nsecond\\x07"
    assert (letter.connector, letter.task, letter.operator) == ("archive", "1", "JsonConverter")


def test_what_the_headers_do_not_say_is_not_made_up() -> None:
    letter = dead_letter(Record(value=b"x"))
    assert (letter.topic, letter.partition, letter.offset) == (None, None, None)
    assert "do not say why" in letter.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [("topic", b"../x"), ("topic", b"\xff"), ("topic", b"a" * 250), ("topic", b""), ("partition", b"-1"),
     ("partition", b"9" * 30), ("partition", "١".encode())],
)  # fmt: skip
def test_headers_that_are_no_place_are_not_believed(name: str, value: bytes) -> None:
    assert getattr(dead_letter(replaced(name, value)), name) is None
    with pytest.raises(NotSendable, match="do not say"):
        sent_again(replaced(name, value), {"topics": "flights"})


def test_long_messages_are_cut() -> None:
    assert len(dead_letter(replaced("exception.message", b"x" * 100_000)).message) == TEXT_MAX


def test_a_letter_goes_where_it_is_from_without_connects_headers() -> None:
    again = sent_again(LETTER, {"topics": "other, flights"})
    assert again == Record(topic="flights", partition=3, key=b"k", value=b"{", headers=(("trace", b"4711"),))
    assert sent_again(LETTER, {"topics.regex": "f.*"}).topic == "flights"


def test_a_letter_goes_to_no_topic_that_the_sink_does_not_read() -> None:
    with pytest.raises(NotSendable, match="flights, which the connector does not read"):
        sent_again(LETTER, {"topics": "other"})
    with pytest.raises(NotSendable, match="__consumer_offsets"):
        sent_again(replaced("topic", b"__consumer_offsets"), {"topics.regex": ".*"})
    with pytest.raises(NotSendable, match="do not say"):
        sent_again(without("partition"), {"topics": "flights"})


def test_a_letter_is_masked_as_the_topics_are_that_it_may_be_from() -> None:
    rule = MaskingRule(name="r", topics=("flights",), fields=(masked_field("value"),), how=How.HIDE)
    masking = Masking([rule], b"key")
    letter = dead_letter(LETTER)
    masks = [masking.of("c", each, ()) for each in ["letters", *source_topics({"topics": "other"}, letter)]]
    record, shown = masked_letter(LETTER, letter, masks, None)
    assert (record.value, record.key) == (b"***", b"k")
    assert (shown.message, shown.trace, shown.stage) == ("", "", letter.stage)
    assert masked_letter(LETTER, letter, [masking.of("c", "letters", ())], None) == (LETTER, letter)


def test_headers_that_were_left_out_do_not_keep_a_letter_from_being_masked() -> None:
    assert source_topics({"topics": "flights, other"}, dead_letter(Record(value=b"x"))) == ["flights", "other"]
    assert source_topics({"topics.regex": ".*"}, dead_letter(LETTER)) == ["flights"]
