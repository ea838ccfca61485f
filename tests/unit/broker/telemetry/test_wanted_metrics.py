"""What a client is asked for is what all subscriptions that match it ask for together."""

from uuid import UUID

from ottla_broker.telemetry.wanted_metrics import wanted_metrics
from ottla_core.client_metrics_config import read_subscription

INSTANCE = UUID(int=0x1234567890ABCDEF_FEDCBA0987654321)
CLIENT = {"client_id": "orders"}
SLOW = read_subscription({"metrics": "b,a", "interval.ms": "60000"})
FAST = read_subscription({"metrics": "c,a", "interval.ms": "1000", "match": "client_id=orders"})
OTHERS = read_subscription({"metrics": "d", "interval.ms": "100", "match": "client_id=payments"})
EVERYTHING = read_subscription({"metrics": "*"})


def test_prefixes_are_joined_and_the_shortest_interval_holds() -> None:
    wanted = wanted_metrics(INSTANCE, CLIENT, [SLOW, FAST, OTHERS])
    assert (wanted.prefixes, wanted.interval_ms) == (("a", "b", "c"), 1000)


def test_whoever_is_asked_for_everything_is_asked_for_nothing_else() -> None:
    assert wanted_metrics(INSTANCE, CLIENT, [SLOW, EVERYTHING]).prefixes == ("*",)


def test_nothing_is_wanted_every_five_minutes_without_a_subscription() -> None:
    wanted = wanted_metrics(INSTANCE, CLIENT, [OTHERS])
    assert (wanted.prefixes, wanted.interval_ms) == ((), 300_000)


def test_the_id_is_the_same_on_every_broker_and_other_for_other_wishes_and_clients() -> None:
    wanted = wanted_metrics(INSTANCE, CLIENT, [SLOW, FAST])
    assert wanted == wanted_metrics(INSTANCE, CLIENT, [FAST, SLOW])
    ids = {
        wanted.subscription_id,
        wanted_metrics(INSTANCE, CLIENT, [SLOW]).subscription_id,
        wanted_metrics(INSTANCE, CLIENT, [read_subscription({"metrics": "b,a"})]).subscription_id,
        wanted_metrics(UUID(int=7), CLIENT, [SLOW, FAST]).subscription_id,
    }
    assert len(ids) == 4
    assert all(-(2**31) <= each < 2**31 for each in ids)
