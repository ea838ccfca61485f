"""OffsetCommit and OffsetFetch in all their versions."""

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire import group_responses as api
from ottla_group_coordinator.settings import GroupSettings
from tests.support.groups.shard_under_test import (
    START_MS,
    ShardUnderTest,
    cluster_of,
    commit_codes,
    commit_request,
    fetch_request,
    fetched,
    topic_id,
    with_deleted,
)

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
TOPICS = {"orders": (1, 3), "payments": (2, 1)}
ORDERS_ID, PAYMENTS_ID = topic_id(1), topic_id(2)


@pytest.fixture
def under_test() -> ShardUnderTest:
    return ShardUnderTest(state=cluster_of(TOPICS))


def commit(
    under_test: ShardUnderTest, group_id: str, version: int = 9, **values: object
) -> dict[tuple[object, int], str]:
    offsets = values.pop("offsets", {("orders", 0): 5})
    request = commit_request(version, group_id, offsets, **values)  # type: ignore[arg-type]
    return commit_codes(under_test.ask(api.OFFSET_COMMIT, version, request))


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_outside_of_a_group_makes_one_that_keeps_offsets(under_test: ShardUnderTest, version: int) -> None:
    topic = ORDERS_ID if version >= 10 else "orders"
    assert commit(under_test, "g", version, offsets={(topic, 0): 5, (topic, 2): 7}) == {
        (topic, 0): "none",
        (topic, 2): "none",
    }
    kept = under_test.offsets("g")
    assert {place: value.offset for place, value in kept.items()} == {("orders", 0): 5, ("orders", 2): 7}
    assert {(value.commit_timestamp, value.topic_id) for value in kept.values()} == {(START_MS, ORDERS_ID)}
    assert under_test.shard.groups["g"].state_name == "Empty"
    assert under_test.shard.groups["g"].protocol_type == ""
    under_test.restart()
    assert under_test.offsets("g") == kept


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_what_was_committed_can_be_fetched(under_test: ShardUnderTest, version: int) -> None:
    commit(under_test, "g", metadata="note")
    topic = ORDERS_ID if version >= 10 else "orders"
    response = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": [(topic, [0, 1])]}))
    topics = response.groups[0].topics if version >= 8 else response.topics
    assert fetched(topics) == {(topic, 0): (5, "none"), (topic, 1): (-1, "none")}
    assert [partition.metadata for partition in topics[0].partitions] == ["note", ""]


@pytest.mark.parametrize("version", range(2, 11))
def test_all_topics_of_a_group_can_be_fetched(under_test: ShardUnderTest, version: int) -> None:
    commit(under_test, "g", offsets={("orders", 0): 5, ("orders", 1): 6, ("payments", 0): 7})
    response = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": None}))
    orders, payments = (ORDERS_ID, PAYMENTS_ID) if version >= 10 else ("orders", "payments")
    assert fetched(response.groups[0].topics if version >= 8 else response.topics) == {
        (orders, 0): (5, "none"),
        (orders, 1): (6, "none"),
        (payments, 0): (7, "none"),
    }


@pytest.mark.parametrize("version", [1, 7, 8, 10])
def test_a_group_that_does_not_exist_has_committed_nothing(under_test: ShardUnderTest, version: int) -> None:
    topic = ORDERS_ID if version >= 10 else "orders"
    response = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"nobody": [(topic, [0])]}))
    topics = response.groups[0].topics if version >= 8 else response.topics
    assert fetched(topics) == {(topic, 0): (-1, "none")}


def test_several_groups_can_be_fetched_at_once(under_test: ShardUnderTest) -> None:
    commit(under_test, "a")
    commit(under_test, "b", offsets={("payments", 0): 9})
    request = fetch_request(9, {"a": [("orders", [0])], "b": None, "c": None}, require_stable=True)
    response = under_test.ask(api.OFFSET_FETCH, 9, request)
    assert [(group.group_id, fetched(group.topics), group.error_code) for group in response.groups] == [
        ("a", {("orders", 0): (5, "none")}, ErrorCode.none),
        ("b", {("payments", 0): (9, "none")}, ErrorCode.none),
        ("c", {}, ErrorCode.none),
    ]


def test_what_does_not_exist_cannot_be_committed_and_the_rest_can(under_test: ShardUnderTest) -> None:
    offsets = {("orders", 0): 1, ("orders", 3): 2, ("orders", -1): 3, ("nowhere", 0): 4}
    unknown = "unknown_topic_or_partition"
    assert commit(under_test, "g", offsets=offsets) == {
        ("orders", 0): "none",
        ("orders", 3): unknown,
        ("orders", -1): unknown,
        ("nowhere", 0): unknown,
    }
    assert list(under_test.offsets("g")) == [("orders", 0)]


def test_unknown_topic_ids_have_an_error_of_their_own(under_test: ShardUnderTest) -> None:
    nowhere = UUID(int=99)
    offsets = {(ORDERS_ID, 0): 1, (ORDERS_ID, 3): 2, (nowhere, 0): 3, (None, 0): 4}
    assert commit(under_test, "g", 10, offsets=offsets) == {
        (ORDERS_ID, 0): "none",
        (ORDERS_ID, 3): "unknown_topic_or_partition",
        (nowhere, 0): "unknown_topic_id",
        (None, 0): "unknown_topic_id",
    }
    response = under_test.ask(
        api.OFFSET_FETCH, 10, fetch_request(10, {"g": [(ORDERS_ID, [0]), (nowhere, [0]), (None, [1])]})
    )
    assert fetched(response.groups[0].topics) == {
        (ORDERS_ID, 0): (1, "none"),
        (nowhere, 0): (-1, "unknown_topic_id"),
        (None, 1): (-1, "unknown_topic_id"),
    }


def test_metadata_may_have_so_many_bytes_and_no_more() -> None:
    under_test = ShardUnderTest(state=cluster_of(TOPICS), settings=GroupSettings(offset_metadata_max_bytes=4))
    assert commit(under_test, "g", metadata="éé") == {("orders", 0): "none"}
    assert commit(under_test, "g", metadata="ééé", offsets={("orders", 0): 6}) == {
        ("orders", 0): "offset_metadata_too_large"
    }
    assert under_test.offsets("g")["orders", 0].offset == 5


def test_no_metadata_is_kept_as_an_empty_text(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", metadata=None)
    assert under_test.offsets("g")["orders", 0].metadata == ""


@pytest.mark.parametrize(
    ("version", "error"), [(8, "illegal_generation"), (9, "group_id_not_found"), (10, "group_id_not_found")]
)
def test_a_member_of_a_group_that_does_not_exist_cannot_commit(
    under_test: ShardUnderTest, version: int, error: str
) -> None:
    topic = ORDERS_ID if version >= 10 else "orders"
    codes = commit(under_test, "g", version, offsets={(topic, 0): 5}, generation_id_or_member_epoch=1, member_id="m")
    assert codes == {(topic, 0): error}
    assert not under_test.log


def test_what_a_group_refuses_leaves_the_errors_of_unknown_partitions_as_they_are(under_test: ShardUnderTest) -> None:
    commit(under_test, "g")
    offsets = {("orders", 0): 6, ("nowhere", 0): 7}
    assert commit(under_test, "g", offsets=offsets, generation_id_or_member_epoch=1, member_id="m") == {
        ("orders", 0): "unknown_member_id",
        ("nowhere", 0): "unknown_topic_or_partition",
    }
    assert under_test.offsets("g")["orders", 0].offset == 5


def test_the_empty_group_id_is_a_group_like_others(under_test: ShardUnderTest) -> None:
    assert commit(under_test, "") == {("orders", 0): "none"}
    response = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"": None}))
    assert fetched(response.groups[0].topics) == {("orders", 0): (5, "none")}


def test_a_group_id_that_no_record_can_hold_is_refused(under_test: ShardUnderTest) -> None:
    assert commit(under_test, "g" * 2**15) == {("orders", 0): "invalid_group_id"}
    assert commit(under_test, "g" * (2**15 - 1)) == {("orders", 0): "none"}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_old_versions_may_say_for_how_long_an_offset_is_kept(under_test: ShardUnderTest, version: int) -> None:
    commit(under_test, "g", version, retention_time=timedelta(hours=1))
    (value,) = under_test.offsets("g").values()
    assert value.expire_timestamp == START_MS + 3_600_000
    under_test.restart()
    assert under_test.offsets("g") == {("orders", 0): value}


def test_a_commit_that_fits_into_no_batch_is_refused_as_a_whole() -> None:
    under_test = ShardUnderTest(
        state=cluster_of({"orders": (1, 200)}), settings=GroupSettings(batch_bytes_max=10_000)
    )
    offsets = {("orders", index): index for index in range(201)}
    codes = commit(under_test, "g", offsets=offsets)
    assert codes.pop(("orders", 200)) == "unknown_topic_or_partition"
    assert set(codes.values()) == {"invalid_commit_offset_size"}
    assert not under_test.log
    fitting = {("orders", index): index for index in range(70)}
    assert set(commit(under_test, "g", offsets=fitting).values()) == {"none"}


def test_offsets_of_a_deleted_topic_are_not_told_even_before_they_are_removed(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", offsets={("orders", 0): 5, ("payments", 0): 6})
    recreated = with_deleted(under_test.state, "orders", 17)
    again = cluster_of({"orders": (3, 3), "payments": (2, 1)}, deleted=recreated.deleted_topics)
    under_test.change(again)
    for version, orders, payments in ((9, "orders", "payments"), (10, topic_id(3), PAYMENTS_ID)):
        asked = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": [(orders, [0])]}))
        assert fetched(asked.groups[0].topics) == {(orders, 0): (-1, "none")}
        everything = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": None}))
        assert fetched(everything.groups[0].topics) == {(payments, 0): (6, "none")}


def test_an_offset_of_another_topic_of_the_same_name_is_told_to_nobody_whoever_saw_the_deletion(
    under_test: ShardUnderTest,
) -> None:
    commit(under_test, "g")
    under_test.change(cluster_of({"orders": (3, 3)}))  # the old one is missing, and was not seen to be deleted
    by_id = under_test.ask(api.OFFSET_FETCH, 10, fetch_request(10, {"g": [(topic_id(3), [0])]}))
    assert fetched(by_id.groups[0].topics) == {(topic_id(3), 0): (-1, "none")}
    by_name = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"g": [("orders", [0])]}))
    assert fetched(by_name.groups[0].topics) == {("orders", 0): (-1, "none")}
    everything = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"g": None}))
    assert fetched(everything.groups[0].topics) == {}


@pytest.mark.parametrize("version", [9, 10])
def test_an_owner_that_comes_after_a_topic_was_made_anew_does_not_tell_the_former_ones_offsets(
    under_test: ShardUnderTest, version: int
) -> None:
    commit(under_test, "g", offsets={("orders", 0): 5, ("payments", 0): 6})
    under_test.state = cluster_of({"orders": (3, 3), "payments": (2, 1)})
    under_test.restart()
    orders, payments = (topic_id(3), PAYMENTS_ID) if version >= 10 else ("orders", "payments")
    asked = [(orders, [0]), (payments, [0])]
    response = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": asked}))
    assert fetched(response.groups[0].topics) == {(orders, 0): (-1, "none"), (payments, 0): (6, "none")}
    commit(under_test, "g", offsets={("orders", 0): 1})
    response = under_test.ask(api.OFFSET_FETCH, version, fetch_request(version, {"g": asked}))
    assert fetched(response.groups[0].topics) == {(orders, 0): (1, "none"), (payments, 0): (6, "none")}


@pytest.mark.parametrize("seen_first_by", ["the writer", "a later owner"])
def test_an_offset_without_a_topic_id_is_of_the_topic_that_has_its_name_when_it_is_read_and_goes_with_it(
    under_test: ShardUnderTest, seen_first_by: str
) -> None:
    commit(under_test, "g", 4, retention_time=timedelta(hours=1))
    assert under_test.log[-1][1] is not None, "the record, which cannot hold an id"
    if seen_first_by == "a later owner":
        under_test.restart()
    by_name = fetch_request(9, {"g": [("orders", [0])]})
    assert fetched(under_test.ask(api.OFFSET_FETCH, 9, by_name).groups[0].topics) == {("orders", 0): (5, "none")}
    under_test.change(cluster_of({"orders": (3, 3)}))
    assert fetched(under_test.ask(api.OFFSET_FETCH, 9, by_name).groups[0].topics) == {("orders", 0): (-1, "none")}


def test_an_offset_without_a_topic_id_is_told_until_a_topic_has_its_name(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", 4, retention_time=timedelta(hours=1))
    under_test.state = cluster_of({})
    under_test.restart()
    response = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"g": None}))
    assert fetched(response.groups[0].topics) == {("orders", 0): (5, "none")}
    under_test.change(cluster_of({"orders": (3, 3)}))
    response = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"g": [("orders", [0])]}))
    assert fetched(response.groups[0].topics) == {("orders", 0): (-1, "none")}


def test_a_topic_that_is_missing_is_left_out_where_only_its_id_could_name_it(under_test: ShardUnderTest) -> None:
    commit(under_test, "g", offsets={("orders", 0): 5, ("payments", 0): 6})
    under_test.change(cluster_of({"payments": (2, 1)}))
    by_id = under_test.ask(api.OFFSET_FETCH, 10, fetch_request(10, {"g": None}))
    assert fetched(by_id.groups[0].topics) == {(PAYMENTS_ID, 0): (6, "none")}
    by_name = under_test.ask(api.OFFSET_FETCH, 9, fetch_request(9, {"g": None}))
    assert fetched(by_name.groups[0].topics) == {("orders", 0): (5, "none"), ("payments", 0): (6, "none")}


def take_forward(under_test: ShardUnderTest, offset: int) -> dict[tuple[object, int], str]:
    """A commit on behalf of a link, which only goes forward."""
    request = commit_request(10, "g", {(ORDERS_ID, 0): offset})
    return commit_codes(under_test.ask(api.OFFSET_COMMIT, 10, request, only_forward=True))


@pytest.mark.parametrize(("offset", "then"), [(4, 5), (5, 5), (6, 6)])
def test_a_commit_that_only_goes_forward_takes_nothing_back(
    under_test: ShardUnderTest, offset: int, then: int
) -> None:
    commit(under_test, "g")
    assert take_forward(under_test, offset) == {(ORDERS_ID, 0): "none"}
    assert under_test.offsets("g")["orders", 0].offset == then


def test_a_commit_that_only_goes_forward_begins_anew_with_a_topic_of_the_same_name(
    under_test: ShardUnderTest,
) -> None:
    commit(under_test, "g")
    under_test.state = cluster_of({"orders": (7, 1)})
    under_test.change(under_test.state)
    assert take_forward(under_test, 3) == {(ORDERS_ID, 0): "unknown_topic_id"}
    request = commit_request(10, "g", {(topic_id(7), 0): 3})
    under_test.ask(api.OFFSET_COMMIT, 10, request, only_forward=True)
    assert under_test.offsets("g")["orders", 0].offset == 3


def test_offsets_that_only_go_forward_do_not_expire_while_they_are_stored_again(under_test: ShardUnderTest) -> None:
    take_forward(under_test, 5)
    first = under_test.offsets("g")["orders", 0].commit_timestamp
    under_test.advance(60_000)
    take_forward(under_test, 5)
    assert under_test.offsets("g")["orders", 0].commit_timestamp == first
    under_test.advance(60 * 60_000)
    take_forward(under_test, 5)
    assert under_test.offsets("g")["orders", 0].commit_timestamp > first
