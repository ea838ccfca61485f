"""Subscriptions to clients' metrics are read and checked as Kafka does it."""

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.client_metrics_config import PREFIXES_MAX, read_subscription
from ottla_core.errors import KafkaError

CLIENT = {"client_id": "orders-7", "client_software_name": "apache-kafka-java", "client_software_version": "4.2.0"}


def test_a_subscription_without_settings_asks_for_nothing_every_five_minutes() -> None:
    subscription = read_subscription({})
    assert (subscription.prefixes, subscription.interval_ms) == (frozenset(), 300_000)
    assert subscription.matches(CLIENT)
    assert subscription.matches({})


def test_prefixes_and_expressions_are_lists() -> None:
    subscription = read_subscription({"metrics": " a. , b.c,", "interval.ms": "100", "match": "client_id=orders-.*"})
    assert (subscription.prefixes, subscription.interval_ms) == (frozenset({"a.", "b.c"}), 100)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("client_id=orders-.*", True),
        ("client_id=orders-.*,client_software_version=4\\..*", True),
        ("client_id = orders-7 , client_software_name = apache-kafka-java", True),
        ("client_id=orders", False),
        ("client_id=rders-7", False),
        ("client_id=orders-.*,client_software_version=3\\..*", False),
        ("client_source_port=.*", False),
    ],
)
def test_a_client_matches_if_each_expression_matches_the_whole_of_what_it_says(match: str, *, matches: bool) -> None:
    assert read_subscription({"match": match}).matches(CLIENT) is matches


def test_an_expression_takes_no_time_beyond_what_it_reads() -> None:
    text = "a" * 256
    assert not read_subscription({"match": "client_id=(a*)*b"}).matches({"client_id": text}), "and this test ends"


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"interval.ms": "99"}, ErrorCode.invalid_request),
        ({"interval.ms": "3600001"}, ErrorCode.invalid_request),
        ({"interval.ms": "soon"}, ErrorCode.invalid_config),
        ({"no.such.setting": "1"}, ErrorCode.invalid_request),
        ({"match": "client_id"}, ErrorCode.invalid_config),
        ({"match": "colour=blue"}, ErrorCode.invalid_config),
        ({"match": "client_id=("}, ErrorCode.invalid_config),
        ({"match": "client_id=(?<=a)b"}, ErrorCode.invalid_config),
        ({"metrics": ",".join(f"m{number}" for number in range(PREFIXES_MAX + 1))}, ErrorCode.invalid_request),
    ],
)
def test_a_setting_that_cannot_be_is_refused(configs: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        read_subscription(configs)
    assert refused.value.code is code
    assert refused.value.message
