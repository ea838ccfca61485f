"""Who may ask and push when, and how many clients are known at once."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_broker.telemetry.client_instances import (
    EXPIRY_S_MIN,
    RESERVED_IDS,
    ClientInstance,
    ClientInstances,
    Push,
)
from ottla_core.client_metrics_config import read_subscription
from ottla_core.errors import KafkaError

ONE, TWO, THREE = (UUID(int=number) for number in (101, 102, 103))
INTERVAL_S = 30.0
SUBSCRIPTION = read_subscription({"metrics": "a", "interval.ms": str(int(INTERVAL_S * 1000))})
OTHER_SUBSCRIPTION = read_subscription({"metrics": "b", "interval.ms": str(int(INTERVAL_S * 1000))})
SIZE_BYTES_MAX = 1000
NO_CODEC = 0


class Known:
    """Instances, with the ids of those that were forgotten."""

    def __init__(self, instances_max: int = 10) -> None:
        self.forgotten: list[UUID] = []
        self.instances = ClientInstances(
            size_bytes_max=SIZE_BYTES_MAX, on_forgotten=self.forgotten.append, instances_max=instances_max
        )
        self.instances.set_subscriptions([SUBSCRIPTION])

    def ask(self, now_s: float, instance_id: UUID = ONE) -> ClientInstance:
        return self.instances.ask(instance_id, {}, now_s)

    def push(
        self,
        now_s: float,
        subscription_id: int,
        *,
        instance_id: UUID = ONE,
        is_last: bool = False,
        codec_id: int = NO_CODEC,
        size_bytes: int = 1,
    ) -> ErrorCode:
        try:
            self.instances.push(instance_id, {}, Push(subscription_id, is_last, codec_id, size_bytes), now_s)
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def is_told(self, now_s: float) -> bool:
        try:
            self.ask(now_s)
        except KafkaError as error:
            return error.code is not ErrorCode.throttling_quota_exceeded
        return True


@pytest.fixture
def known() -> Known:
    return Known()


def test_a_client_asks_and_then_pushes_at_every_interval(known: Known) -> None:
    wanted = known.ask(0.0).wanted
    assert known.push(0.5 * INTERVAL_S, wanted.subscription_id) is ErrorCode.none, "the first comes when it likes"
    assert known.push(1.5 * INTERVAL_S, wanted.subscription_id) is ErrorCode.none
    assert known.push(2.5 * INTERVAL_S, wanted.subscription_id) is ErrorCode.none


def test_a_push_that_comes_too_early_is_refused_and_does_not_put_off_the_next(known: Known) -> None:
    wanted = known.ask(0.0).wanted
    assert known.push(1.0, wanted.subscription_id) is ErrorCode.none
    assert known.push(30.9, wanted.subscription_id) is ErrorCode.throttling_quota_exceeded
    assert known.push(31.0, wanted.subscription_id) is ErrorCode.none


def test_a_question_that_comes_too_early_is_refused(known: Known) -> None:
    assert known.is_told(0.0)
    assert not known.is_told(29.9)
    assert known.is_told(30.0)
    known.push(31.0, known.instances.ask(ONE, {}, 60.0).wanted.subscription_id)
    assert not known.is_told(60.9)


def test_a_client_that_the_broker_does_not_know_pushes_with_what_another_broker_has_told_it(known: Known) -> None:
    told = Known().ask(0.0).wanted
    assert known.push(3.0, told.subscription_id) is ErrorCode.none


def test_after_a_change_of_subscriptions_a_push_is_refused_and_the_client_asks_at_once(known: Known) -> None:
    before = known.ask(0.0).wanted
    known.instances.set_subscriptions([OTHER_SUBSCRIPTION])
    assert known.push(1.0, before.subscription_id) is ErrorCode.unknown_subscription_id
    assert known.is_told(1.1)
    after = known.instances.ask(TWO, {}, 1.2).wanted
    assert after.prefixes == ("b",)
    assert not known.is_told(1.3), "once"


def test_after_a_change_of_subscriptions_a_client_may_ask_before_its_interval_is_over(known: Known) -> None:
    assert known.is_told(0.0)
    known.instances.set_subscriptions([OTHER_SUBSCRIPTION])
    assert known.is_told(1.0)


def test_a_wrong_subscription_id_is_not_tried_again_and_again(known: Known) -> None:
    wrong = known.ask(0.0).wanted.subscription_id ^ 1
    assert known.push(1.0, wrong) is ErrorCode.unknown_subscription_id
    assert known.push(1.1, wrong) is ErrorCode.throttling_quota_exceeded


def test_an_unknown_codec_is_refused_and_the_client_asks_at_once(known: Known) -> None:
    wanted = known.ask(0.0).wanted
    assert known.push(1.0, wanted.subscription_id, codec_id=5) is ErrorCode.unsupported_compression_type
    assert known.is_told(1.1)
    assert known.push(1.2, wanted.subscription_id) is ErrorCode.none


def test_a_push_may_be_as_large_as_the_setting_says_and_no_larger(known: Known) -> None:
    wanted = known.ask(0.0).wanted
    assert known.push(1.0, wanted.subscription_id, size_bytes=SIZE_BYTES_MAX) is ErrorCode.none
    too_large = known.push(31.0, wanted.subscription_id, size_bytes=SIZE_BYTES_MAX + 1)
    assert too_large is ErrorCode.telemetry_too_large
    assert not known.is_told(32.0), "it waits for its next interval"


def test_the_last_push_comes_when_it_likes_and_nothing_after_it(known: Known) -> None:
    wanted = known.ask(0.0).wanted
    assert known.push(1.0, wanted.subscription_id) is ErrorCode.none
    assert known.push(2.0, wanted.subscription_id, is_last=True) is ErrorCode.none
    assert known.push(99.0, wanted.subscription_id) is ErrorCode.invalid_request
    assert known.push(99.0, wanted.subscription_id, is_last=True) is ErrorCode.invalid_request
    known.instances.set_subscriptions([SUBSCRIPTION])
    assert known.push(199.0, wanted.subscription_id) is ErrorCode.invalid_request


@pytest.mark.parametrize("instance_id", RESERVED_IDS)
def test_nobody_pushes_without_an_instance_id(known: Known, instance_id: UUID) -> None:
    assert known.push(1.0, 0, instance_id=instance_id) is ErrorCode.invalid_request
    assert len(known.instances) == 0


def test_beyond_the_bound_the_client_that_was_silent_for_longest_makes_way() -> None:
    known = Known(instances_max=2)
    for now_s, instance_id in ((0.0, ONE), (1.0, TWO), (31.0, ONE), (32.0, THREE)):
        known.ask(now_s, instance_id)
    assert (known.forgotten, len(known.instances), known.instances.evictions) == ([TWO], 2, 1)
    assert ONE in known.instances


def test_a_silent_client_is_forgotten_after_three_intervals_and_not_before_a_minute(known: Known) -> None:
    known.ask(0.0)
    known.instances.forget_silent(3 * INTERVAL_S - 1)
    assert known.forgotten == []
    known.instances.forget_silent(3 * INTERVAL_S)
    assert known.forgotten == [ONE]
    known.instances.set_subscriptions([read_subscription({"interval.ms": "100"})])
    known.ask(100.0)
    known.instances.forget_silent(100.0 + EXPIRY_S_MIN - 1)
    assert len(known.instances) == 1
    known.instances.forget_silent(100.0 + EXPIRY_S_MIN)
    assert len(known.instances) == 0
