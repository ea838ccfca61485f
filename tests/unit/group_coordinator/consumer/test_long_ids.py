"""A member id that records cannot hold is refused, also where a static member comes back with nothing else new."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_core.wire.group_responses import CONSUMER_GROUP_HEARTBEAT
from ottla_group_coordinator.records.field_codec import STRING_BYTES_MAX
from tests.support.groups.shard_under_test import ShardUnderTest, cluster_of

VERSION = 1
MINUTE = timedelta(minutes=1)


def beat(under_test: ShardUnderTest, member_id: str, epoch: int, *, instance_id: str = "one") -> Any:
    return under_test.ask_with(
        CONSUMER_GROUP_HEARTBEAT,
        VERSION,
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        rebalance_timeout=MINUTE,
        subscribed_topic_names=("flights",),
        topic_partitions=(),
    )


def test_a_static_member_does_not_come_back_under_an_id_that_is_too_long() -> None:
    under_test = ShardUnderTest(state=cluster_of({"flights": (1, 2)}))
    assert beat(under_test, "a", 0).error_code is ErrorCode.none
    assert beat(under_test, "a", -2).error_code is ErrorCode.none

    assert beat(under_test, "a" * (STRING_BYTES_MAX + 1), 0).error_code is ErrorCode.invalid_request
    assert not under_test.turn_records
    assert beat(under_test, "b", 0).error_code is ErrorCode.none


def test_an_instance_id_that_no_classic_group_could_have_is_refused() -> None:
    under_test = ShardUnderTest(state=cluster_of({"flights": (1, 2)}))
    longest = "i" * STRING_BYTES_MAX
    assert beat(under_test, "a", 0, instance_id=longest + "i").error_code is ErrorCode.invalid_request
    assert beat(under_test, "a", 0, instance_id=longest).error_code is ErrorCode.none
