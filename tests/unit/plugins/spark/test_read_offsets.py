"""Offsets as documents, and which topics a pattern means."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_spark.datasource.described_topics import replaced_topics
from ottla_spark.datasource.offsets import TopicOffsets, named, parse_offsets, parse_partitions
from ottla_spark.datasource.topic_choice import chosen_topics

TOPICS = st.text(min_size=1)
OFFSETS = st.dictionaries(st.tuples(TOPICS, st.integers(0, 2000)), st.integers(0, 2**62))
IDS = st.dictionaries(TOPICS, TOPICS)


def test_documents_are_those_of_sparks_kafka_source_with_the_ids_of_topics_beside() -> None:
    offsets = TopicOffsets({("b", 0): 1, ("a", 10): 3, ("a", 2): 23}, {"a": "QmYh", "c": "unused"})
    text = json.dumps(offsets.document(), separators=(",", ":"))
    assert text == '{"a":{"2":23,"10":3,"topicId":"QmYh"},"b":{"0":1}}'


@given(OFFSETS, IDS)
def test_a_document_says_what_it_was_made_of(offsets: dict[tuple[str, int], int], ids: dict[str, str]) -> None:
    ids = {topic: ids.get(topic, "of its own") for topic, _ in offsets}
    assert TopicOffsets.of(json.loads(json.dumps(TopicOffsets(offsets, ids).document()))) == TopicOffsets(
        offsets, ids
    )


@given(OFFSETS, st.randoms())
def test_equal_offsets_make_equal_text(offsets: dict[tuple[str, int], int], random: object) -> None:
    items = list(offsets.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    ids = {topic: topic[::-1] for (topic, _), _ in items}
    shuffled = TopicOffsets(dict(items), ids)
    assert json.dumps(shuffled.document()) == json.dumps(TopicOffsets(offsets, dict(sorted(ids.items()))).document())


def test_a_document_without_ids_is_read_as_before() -> None:
    assert TopicOffsets.of({"t": {"0": 5}}) == TopicOffsets({("t", 0): 5}, {})


def test_a_topic_is_replaced_only_where_both_ids_are_known_and_differ() -> None:
    assert replaced_topics({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"}) == {"b"}
    assert replaced_topics({}, {"a": "1"}) == frozenset()
    assert replaced_topics({"a": "1"}, {}) == frozenset()


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
