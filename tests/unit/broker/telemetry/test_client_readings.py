"""The values that clients push stand together by client id and metric, in a bounded number."""

from uuid import UUID

from ottla_broker.telemetry.client_readings import (
    CLIENT_IDS_MAX,
    METRICS_MAX,
    OTHER_CLIENTS,
    ClientReadings,
    PushedValues,
)
from ottla_core.observe.metrics import SERIES_MAX

ONE, TWO, THREE = (UUID(int=number) for number in (101, 102, 103))


def take(readings: ClientReadings, instance_id: UUID, client_id: str, **values: float) -> None:
    """Takes a push; values of names that end in `total` are increases."""
    increases = {name: value for name, value in values.items() if name.endswith("total")}
    highest = {name: value for name, value in values.items() if name not in increases}
    readings.take(instance_id, client_id, PushedValues(highest, increases))


def highest(readings: ClientReadings) -> dict[tuple[str, str], float]:
    return {(labels["client_id"], labels["metric"]): value for value, labels in readings.highest()}


def totals(readings: ClientReadings) -> dict[tuple[str, str], float]:
    return {(labels["client_id"], labels["metric"]): value for value, labels in readings.totals()}


def test_of_the_clients_of_an_id_the_highest_value_counts_and_increases_are_added_up() -> None:
    readings = ClientReadings()
    take(readings, ONE, "orders", latency=5.0, sent_total=10.0)
    take(readings, TWO, "orders", latency=7.0, sent_total=1.0)
    take(readings, THREE, "payments", latency=1.0)
    take(readings, TWO, "orders", latency=3.0, sent_total=2.0)
    assert highest(readings) == {("orders", "latency"): 5.0, ("payments", "latency"): 1.0}
    assert totals(readings) == {("orders", "sent_total"): 13.0}


def test_what_a_client_pushes_no_more_is_gone() -> None:
    readings = ClientReadings()
    take(readings, ONE, "orders", latency=5.0, sent_total=10.0)
    take(readings, ONE, "orders", lag=2.0)
    assert highest(readings) == {("orders", "lag"): 2.0}
    assert totals(readings) == {}


def test_a_client_that_is_forgotten_leaves_nothing_behind() -> None:
    readings = ClientReadings()
    take(readings, ONE, "orders", latency=5.0, sent_total=10.0)
    readings.forget(ONE)
    readings.forget(ONE)
    assert highest(readings) == totals(readings) == {}
    assert (readings._clients, readings._names, readings._metrics, readings._metrics_of) == ({}, {}, {}, {})


def test_client_ids_beyond_the_bound_share_one_name_until_there_is_room() -> None:
    readings = ClientReadings()
    for number in range(CLIENT_IDS_MAX + 2):
        take(readings, UUID(int=number), f"client-{number}", latency=float(number))
    shown = highest(readings)
    assert len(shown) == CLIENT_IDS_MAX + 1
    assert shown[OTHER_CLIENTS, "latency"] == CLIENT_IDS_MAX + 1
    readings.forget(UUID(int=0))
    take(readings, UUID(int=1000), "late", latency=1.0)
    assert ("late", "latency") in highest(readings)


def test_metrics_beyond_the_bound_are_left_out_and_counted_and_those_that_are_shown_stay() -> None:
    readings = ClientReadings()
    first = {f"m{number}": 1.0 for number in range(METRICS_MAX)}
    take(readings, ONE, "orders", **first, sent_total=1.0)
    assert readings.left_out == 1
    take(readings, TWO, "payments", a=1.0, m0=2.0)
    assert (readings.left_out, highest(readings)["payments", "m0"]) == (2, 2.0)
    take(readings, ONE, "orders", new=1.0, **first)
    assert ("orders", "new") not in highest(readings)
    assert len(highest(readings)) == METRICS_MAX + 1


def test_pushes_of_ever_new_metrics_take_no_more_room() -> None:
    readings = ClientReadings()
    for number in range(10 * METRICS_MAX):
        take(readings, ONE, "orders", **{f"{number}_total": 1.0, f"g{number}": 1.0})
    assert len(totals(readings)) == len(highest(readings)) == len(readings._metrics) // 2 == 1


def test_all_series_fit_into_one_metric() -> None:
    assert (CLIENT_IDS_MAX + 1) * METRICS_MAX <= SERIES_MAX
