"""Offsets as documents, and which topics a pattern means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.datasource.offsets import document_of, named, offsets_in, parse_offsets, parse_partitions
from ottla_spark.datasource.topic_choice import chosen_topics

OFFSETS = st.dictionaries(st.tuples(st.text(min_size=1), st.integers(0, 2000)), st.integers(0, 2**62))


def test_documents_are_those_of_sparks_kafka_source() -> None:
    document = document_of({("b", 0): 1, ("a", 10): 3, ("a", 2): 23})
    assert json.dumps(document, separators=(",", ":")) == '{"a":{"2":23,"10":3},"b":{"0":1}}'


@given(OFFSETS)
def test_a_document_says_what_it_was_made_of(offsets: dict[tuple[str, int], int]) -> None:
    assert offsets_in(json.loads(json.dumps(document_of(offsets)))) == offsets


@given(OFFSETS, st.randoms())
def test_equal_offsets_make_equal_text(offsets: dict[tuple[str, int], int], random: object) -> None:
    items = list(offsets.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    assert json.dumps(document_of(dict(items))) == json.dumps(document_of(offsets))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "earliest",
        '{"t":[0]}',
        '{"t":{"0":true}}',
        '{"t":{"-1":0}}',
        '{"t":{"0":-3}}',
        '{"t":{"0":1.5}}',
    ],
)
def test_what_is_not_offsets_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected JSON such as \{"topicA"'):
        parse_offsets(text)


@pytest.mark.parametrize(
    "text", ["", "{}", "[0]", '{"t":0}', '{"t":[]}', '{"t":["0"]}', '{"t":[-1]}', '{"t":[true]}']
)
def test_what_is_not_partitions_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r'expected JSON such as \{"topicA":\[0,1\]'):
        parse_partitions(text)


def test_many_partitions_are_cut_short_in_a_message() -> None:
    assert named([("t", 1), ("t", 0)]) == "t-0, t-1"
    assert named([("t", number) for number in range(12)]).endswith("t-9 and 2 more")


def test_a_pattern_means_whole_names_and_no_internal_topics() -> None:
    names = ["__consumer_offsets", "flights", "flights-late", "my-flights"]
    assert chosen_topics(names, "flights.*") == ["flights", "flights-late"]
    assert "__consumer_offsets" not in chosen_topics(names, ".*")
