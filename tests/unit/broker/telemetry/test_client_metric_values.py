"""The values that clients push stand together by client id and metric, in a bounded number."""

from uuid import UUID

from ottla_broker.telemetry.client_metric_values import (
    CLIENT_IDS_MAX,
    METRICS_MAX,
    OTHER_CLIENTS,
    ClientMetricValues,
    PushedValues,
)
from ottla_core.observe.metrics import SERIES_MAX

ONE, TWO, THREE = (UUID(int=number) for number in (101, 102, 103))


def take(kept: ClientMetricValues, instance_id: UUID, client_id: str, **values: float) -> None:
    """Takes a push; values of names that end in `total` are increases."""
    increases = {name: value for name, value in values.items() if name.endswith("total")}
    highest = {name: value for name, value in values.items() if name not in increases}
    kept.take(instance_id, client_id, PushedValues(highest, increases))


def highest(kept: ClientMetricValues) -> dict[tuple[str, str], float]:
    return {(labels["client_id"], labels["metric"]): value for value, labels in kept.highest()}


def totals(kept: ClientMetricValues) -> dict[tuple[str, str], float]:
    return {(labels["client_id"], labels["metric"]): value for value, labels in kept.totals()}


def test_of_the_clients_of_an_id_the_highest_value_counts_and_increases_are_added_up() -> None:
    kept = ClientMetricValues()
    take(kept, ONE, "orders", latency=5.0, sent_total=10.0)
    take(kept, TWO, "orders", latency=7.0, sent_total=1.0)
    take(kept, THREE, "payments", latency=1.0)
    take(kept, TWO, "orders", latency=3.0, sent_total=2.0)
    assert highest(kept) == {("orders", "latency"): 5.0, ("payments", "latency"): 1.0}
    assert totals(kept) == {("orders", "sent_total"): 13.0}


def test_what_a_client_pushes_no_more_is_gone() -> None:
    kept = ClientMetricValues()
    take(kept, ONE, "orders", latency=5.0, sent_total=10.0)
    take(kept, ONE, "orders", lag=2.0)
    assert highest(kept) == {("orders", "lag"): 2.0}
    assert totals(kept) == {}


def test_a_client_that_is_forgotten_leaves_nothing_behind() -> None:
    kept = ClientMetricValues()
    take(kept, ONE, "orders", latency=5.0, sent_total=10.0)
    kept.forget(ONE)
    kept.forget(ONE)
    assert highest(kept) == totals(kept) == {}
    assert (kept._clients, kept._names, kept._metrics, kept._metrics_of) == ({}, {}, {}, {})


def test_client_ids_beyond_the_bound_share_one_name_until_there_is_room() -> None:
    kept = ClientMetricValues()
    for number in range(CLIENT_IDS_MAX + 2):
        take(kept, UUID(int=number), f"client-{number}", latency=float(number))
    shown = highest(kept)
    assert len(shown) == CLIENT_IDS_MAX + 1
    assert shown[OTHER_CLIENTS, "latency"] == CLIENT_IDS_MAX + 1
    kept.forget(UUID(int=0))
    take(kept, UUID(int=1000), "late", latency=1.0)
    assert ("late", "latency") in highest(kept)


def test_metrics_beyond_the_bound_are_left_out_and_counted_and_those_that_are_shown_stay() -> None:
    kept = ClientMetricValues()
    first = {f"m{number}": 1.0 for number in range(METRICS_MAX)}
    take(kept, ONE, "orders", **first, sent_total=1.0)
    assert kept.left_out == 1
    take(kept, TWO, "payments", a=1.0, m0=2.0)
    assert (kept.left_out, highest(kept)["payments", "m0"]) == (2, 2.0)
    take(kept, ONE, "orders", new=1.0, **first)
    assert ("orders", "new") not in highest(kept)
    assert len(highest(kept)) == METRICS_MAX + 1


def test_pushes_of_ever_new_metrics_take_no_more_room() -> None:
    kept = ClientMetricValues()
    for number in range(10 * METRICS_MAX):
        take(kept, ONE, "orders", **{f"{number}_total": 1.0, f"g{number}": 1.0})
    assert len(totals(kept)) == len(highest(kept)) == len(kept._metrics) // 2 == 1


def test_all_series_fit_into_one_metric() -> None:
    assert (CLIENT_IDS_MAX + 1) * METRICS_MAX <= SERIES_MAX
