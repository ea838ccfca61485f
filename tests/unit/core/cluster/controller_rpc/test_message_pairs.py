"""What brokers ask the controller for, and its answers, survive the trip through protobuf."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc import controller_messages, link_messages, login_messages
from ottla_core.cluster.controller_rpc.controller_api import (
    ConfigChange,
    ConfigResourceChange,
    DeletedTopic,
    GrownTopic,
    InSyncReplica,
    NewTopic,
    Reassignment,
    TopicReference,
)
from ottla_core.cluster.controller_rpc.link_api import LinkedPartitionState, LinkProblemKind
from ottla_core.cluster.controller_rpc.login_api import ScramUpsertion
from ottla_core.cluster.controller_rpc.message_pair import MessagePair
from ottla_core.cluster.state.security import ScramCredential
from ottla_core.errors import InvalidRequest
from ottla_core.kafka_uuid import ZERO_UUID
from ottla_proto.gen.ottla import controller_pb2 as pb
from ottla_proto.gen.ottla import links_pb2, logins_pb2

PAIRS: dict[str, MessagePair[Any, Any]] = {
    name: pair
    for module in (controller_messages, link_messages, login_messages)
    for name, pair in vars(module).items()
    if isinstance(pair, MessagePair)
}
WITHOUT_MESSAGE = {("Link", "revision")}
"""Fields that stay behind."""
ID = UUID(int=77)


def things(kind: Any) -> st.SearchStrategy[Any]:
    """Return what stands in a field of a type; texts are never empty, as some messages cannot tell that from none."""
    arguments = get_args(kind)
    if type(None) in arguments:
        return st.none() | things(next(each for each in arguments if each is not type(None)))
    if get_origin(kind) in (tuple, frozenset):
        return st.lists(things(arguments[0]), max_size=3).map(get_origin(kind))
    if get_origin(kind) is Mapping:
        return st.dictionaries(things(arguments[0]), things(arguments[1]), max_size=3)
    if is_dataclass(kind):
        names = [each for each in fields(kind) if (kind.__name__, each.name) not in WITHOUT_MESSAGE]
        return st.builds(kind, **{each.name: things(each.type) for each in names})
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    plain = {
        int: st.integers(-(2**31), 2**31 - 1),
        bool: st.booleans(),
        str: st.text(min_size=1, max_size=5),
        bytes: st.binary(max_size=5),
        UUID: st.uuids(),
    }
    return plain[kind]


@pytest.mark.parametrize("pair", [pytest.param(pair, id=name) for name, pair in sorted(PAIRS.items())])
@settings(max_examples=25)
@given(data=st.data())
def test_every_value_comes_out_of_its_serialised_message(pair: MessagePair[Any, Any], data: st.DataObject) -> None:
    value = data.draw(things(pair.value_type))
    if isinstance(value, TopicReference):
        value = TopicReference(name=value.name) if value.topic_id is None else TopicReference(topic_id=value.topic_id)
    message = pair.message_type.FromString(pair.to_message(value).SerializeToString())
    assert pair.from_message(message) == value


def test_nothing_and_emptiness_are_told_apart() -> None:
    configs: dict[str, str | None] = {"a": "1", "b": None, "c": ""}
    new = NewTopic(name="a", topic_id=ID, configs=configs)
    assert controller_messages.NEW_TOPIC.from_message(controller_messages.NEW_TOPIC.to_message(new)) == new
    for replicas in ((2, 1), (), None):
        moved = Reassignment(topic="a", index=1, replicas=replicas)
        message = controller_messages.REASSIGNMENT.to_message(moved)
        assert message.HasField("replicas") is (replicas is not None)
        assert controller_messages.REASSIGNMENT.from_message(message) == moved


def test_how_an_item_ended_stands_in_a_message_of_its_own() -> None:
    pair = controller_messages.GROWN_TOPIC
    failed = GrownTopic(topic="a", error_code=ErrorCode.invalid_config, error_message="nicht gültig")
    assert pair.to_message(failed) == pb.GrownTopic(topic="a", error=pb.ItemError(code=40, message="nicht gültig"))
    assert pair.from_message(pb.GrownTopic(topic="a")) == GrownTopic(topic="a")


def test_fields_of_other_names_and_inner_values_are_found() -> None:
    change = ConfigResourceChange(type=2, name="a", changes=(ConfigChange(name="x", value="v"),))
    message = pb.ConfigResourceChange(
        resource_type=2, resource_name="a", changes=[pb.ConfigChange(name="x", value="v")]
    )
    assert controller_messages.RESOURCE_CHANGE.to_message(change) == message


def test_an_empty_id_is_the_default_where_there_is_one() -> None:
    assert controller_messages.DELETED_TOPIC.from_message(pb.DeletedTopic(name="a")) == DeletedTopic(
        name="a", topic_id=ZERO_UUID
    )


def test_ids_of_other_lengths_and_unknown_numbers_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"NewTopic\.topic_id: an id has 16 bytes, not 3"):
        controller_messages.NEW_TOPIC.from_message(pb.NewTopic(name="a", topic_id=b"abc"))
    with pytest.raises(InvalidRequest, match="16 bytes, not 0"):
        controller_messages.NEW_TOPIC.from_message(pb.NewTopic(name="a"))
    with pytest.raises(InvalidRequest, match="9999 is no ErrorCode"):
        controller_messages.GROWN_TOPIC.from_message(pb.GrownTopic(topic="a", error=pb.ItemError(code=9999)))
    with pytest.raises(InvalidRequest, match="7 is no ConfigOperation"):
        controller_messages.RESOURCE_CHANGE.from_message(
            pb.ConfigResourceChange(changes=[pb.ConfigChange(operation=7)])  # type: ignore[arg-type]
        )


def test_a_field_without_counterpart_is_found_when_the_pair_is_made() -> None:
    @dataclass(frozen=True)
    class Longer(InSyncReplica):
        rack: str = ""

    with pytest.raises(TypeError, match="InSyncReplica lacks rack, which Longer has"):
        MessagePair(Longer, pb.InSyncReplica)
    with pytest.raises(TypeError, match="InSyncReplica lacks error, which GrownTopic has"):
        MessagePair(InSyncReplica, pb.GrownTopic, renamed={"broker_id": "topic"}, except_for=["broker_epoch"])


def test_states_and_problems_that_a_later_release_has_are_shown_by_this_one() -> None:
    status = link_messages.status_from_message(
        links_pb2.PartitionStatus(link="l", topic="t", index=1, state="DREAMING", reason="of sheep")
    )
    assert (status.state, status.reason) == (LinkedPartitionState.FAILED, "DREAMING: of sheep")
    keeping = link_messages.keeping_from_message(
        links_pb2.LinkKeeping(
            link="l",
            problems=[
                links_pb2.LinkProblem(kind="GROUP_ASLEEP", name="g"),
                links_pb2.LinkProblem(kind="GROUP_IN_USE", name="h"),
            ],
            problems_left_off=2,
        )
    )
    assert ([each.kind for each in keeping.problems], keeping.problems_left_off) == (
        [LinkProblemKind.GROUP_IN_USE],
        3,
    )


def test_a_credential_travels_with_its_user() -> None:
    credential = ScramCredential(salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
    request = login_messages.alterations_to_message([], [ScramUpsertion("ada", 1, credential)])
    assert request.upsertions[0] == logins_pb2.ScramUpsertion(
        user="ada", mechanism=1, iterations=4096, salt=b"s", stored_key=b"k", server_key=b"v"
    )
    assert login_messages.upsertion_from_message(request.upsertions[0]) == ScramUpsertion("ada", 1, credential)
