"""What is counted of clients, and when they are throttled."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ottla_broker.quotas import client_quotas
from ottla_broker.quotas.client_quotas import ClientQuotas, Meters
from ottla_broker.quotas.mutations import admitted
from ottla_broker.quotas.sampled_rate import RateWindow
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, QuotaName
from ottla_core.principal import Principal

USER, CLIENT_ID = QuotaEntityKind.USER, QuotaEntityKind.CLIENT_ID
WINDOW = RateWindow(samples=11, sample_ms=1000)


ADAS = Principal("User", "ada")


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Throttled:
    """Stands for a connection."""

    principal: Principal = ADAS
    meters: Meters | None = None
    throttles: list[int] = field(default_factory=list)

    def throttle(self, throttle_ms: int) -> None:
        self.throttles.append(throttle_ms)


def state_of(quotas: dict[QuotaEntity, dict[str, float]]) -> Any:
    return SimpleNamespace(security=SimpleNamespace(client_quotas=quotas))


def quotas_of(quotas: dict[QuotaEntity, dict[str, float]], clock: ManualClock | None = None) -> ClientQuotas:
    made = ClientQuotas(WINDOW, WINDOW, clock or ManualClock())  # type: ignore[arg-type]
    made.state_changed(None, state_of(quotas))
    return made


def produce(quotas: ClientQuotas, client: Throttled, size_bytes: int, *, client_id: str = "app") -> bool:
    header: Any = SimpleNamespace(api_key=client_quotas.PRODUCE_KEY, client_id=client_id)
    return quotas.take(client, header, size_bytes)


ADA = QuotaEntity(((USER, "ada"),))
BY_CLIENT_ID = QuotaEntity(((CLIENT_ID, None),))


def test_without_quotas_nothing_is_on() -> None:
    assert not quotas_of({}).are_on
    assert not quotas_of({QuotaEntity(((QuotaEntityKind.IP, None),)): {"connection_creation_rate": 1.0}}).are_on


def test_small_requests_are_counted_together_and_throttled_all_the_same() -> None:
    quotas, client = quotas_of({ADA: {"producer_byte_rate": 10_000.0}}), Throttled()
    for _ in range(100_000 + 300):
        produce(quotas, client, 1)
    assert client.throttles
    assert quotas.throttled[QuotaName.PRODUCER_BYTE_RATE].count == len(client.throttles)


def test_a_user_shares_its_quota_among_client_ids_and_connections() -> None:
    quotas = quotas_of({ADA: {"producer_byte_rate": 1000.0}})
    first, second = Throttled(), Throttled()
    produce(quotas, first, 9_000)
    produce(quotas, second, 9_000, client_id="other")
    assert not first.throttles
    assert second.throttles == [8000]


def test_a_connection_that_changes_its_client_id_goes_by_the_other_ones_quota() -> None:
    quotas = quotas_of({QuotaEntity(((CLIENT_ID, "app"),)): {"producer_byte_rate": 1.0}})
    client = Throttled()
    produce(quotas, client, 10**6, client_id="free")
    assert not client.throttles
    produce(quotas, client, 10**6)
    assert client.throttles


def test_a_changed_quota_holds_for_open_connections_and_what_was_used_stays_used() -> None:
    quotas, client = quotas_of({ADA: {"producer_byte_rate": 1e9}}), Throttled()
    produce(quotas, client, 50_000_000)
    assert not client.throttles
    quotas.state_changed(state_of({}), state_of({ADA: {"producer_byte_rate": 1000.0}}))
    produce(quotas, client, 100)
    assert client.throttles


def test_a_reader_that_is_above_its_quota_gets_nothing_and_it_does_not_count() -> None:
    clock = ManualClock()
    quotas, client = quotas_of({ADA: {"consumer_byte_rate": 1000.0}}, clock), Throttled()
    assert quotas.may_fetch(client, "app", 10_000)
    assert not quotas.may_fetch(client, "app", 5_000)
    assert not quotas.may_fetch(client, "app", 5_000)
    clock.now_s += 12
    assert quotas.may_fetch(client, "app", 5_000)


def test_a_batch_larger_than_a_window_is_given_once_and_paid_for() -> None:
    quotas, client = quotas_of({ADA: {"consumer_byte_rate": 10.0}}), Throttled()
    assert quotas.may_fetch(client, "app", 1_000_000)
    assert client.throttles


def test_time_is_measured_by_lot_and_stands_for_all_requests() -> None:
    quotas, client = quotas_of({ADA: {"request_percentage": 1e9}}), Throttled()
    weights = [
        quotas.weigh_time(client, "app", 10**12 + now_ns) for now_ns in range(10_000) if produce(quotas, client, 1)
    ]
    assert len(weights) < 1000
    assert 10_000 - 2 * client_quotas.MEASURED_ONE_IN <= sum(weights) <= 10_000


def test_partitions_beyond_the_quota_are_refused_and_to_older_clients_only_delayed() -> None:
    rate = {ADA: {"controller_mutation_rate": 1.0}}
    client = Throttled()
    done, refused = admitted(quotas_of(rate), client, "app", [8, 8, 8], lambda count: count, is_strict=True)
    assert (done, refused) == ([8, 8], [8])
    assert client.throttles
    older = Throttled()
    done, refused = admitted(quotas_of(rate), older, "app", [8, 8, 8], lambda count: count, is_strict=False)
    assert (len(done), refused) == (3, [])
    assert older.throttles


def test_clients_that_are_known_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 10)
    monkeypatch.setattr(client_quotas, "METERS_MAX", 10)
    quotas, client = quotas_of({BY_CLIENT_ID: {"producer_byte_rate": 1.0}}), Throttled()
    for number in range(100):
        produce(quotas, client, 1, client_id=str(number))
    assert len(quotas._meters) <= 10
    assert sum(map(len, quotas._rates.values())) <= 10


def flood(quotas: ClientQuotas, clock: ManualClock, *, seconds: int = 0) -> None:
    """Many client ids of several users use something, in each second."""
    for second in range(seconds + 1):
        for user in "efgh":
            for number in range(20):
                client = Throttled(Principal("User", user))
                produce(quotas, client, 1000, client_id=f"{second} {number}")
        clock.now_s += 1


@pytest.mark.parametrize("limited", [ADA, BY_CLIENT_ID])
def test_no_flood_of_client_ids_rids_a_user_of_what_it_used(limited: QuotaEntity, monkeypatch: Any) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 10)
    monkeypatch.setattr(client_quotas, "METERS_MAX", 10)
    clock = ManualClock()
    quotas = quotas_of({BY_CLIENT_ID: {"producer_byte_rate": 100.0}, limited: {"producer_byte_rate": 100.0}}, clock)
    produce(quotas, Throttled(), 100_000)
    flood(quotas, clock)
    client = Throttled()
    produce(quotas, client, 100)
    assert client.throttles


def test_a_flood_of_client_ids_leaves_the_quotas_of_users_alone(monkeypatch: Any) -> None:
    monkeypatch.setattr(client_quotas, "METERS_MAX", 10)
    clock = ManualClock()
    quotas = quotas_of({BY_CLIENT_ID: {"producer_byte_rate": 100.0}, ADA: {"producer_byte_rate": 100.0}}, clock)
    flood(quotas, clock, seconds=30)
    client = Throttled()
    produce(quotas, client, 900)
    assert not client.throttles


def test_a_connection_that_was_silent_shares_its_quota_with_new_ones(monkeypatch: Any) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 10)
    monkeypatch.setattr(client_quotas, "METERS_MAX", 10)
    clock = ManualClock()
    quotas = quotas_of({BY_CLIENT_ID: {"producer_byte_rate": 100.0}}, clock)
    silent, new = Throttled(), Throttled()
    produce(quotas, silent, 500)
    assert silent.meters is not None
    assert silent.meters.produced is not None
    flood(quotas, clock, seconds=30)
    assert not silent.meters.produced.rate.is_kept
    clock.now_s += 12
    produce(quotas, new, 900)
    produce(quotas, silent, 900)
    assert not new.throttles
    assert silent.throttles, "both together are above the quota"


def test_a_long_client_id_costs_no_more_than_a_short_one() -> None:
    quotas, client = quotas_of({BY_CLIENT_ID: {"producer_byte_rate": 100.0}}), Throttled()
    for number in range(3):
        for _ in range(2):
            produce(quotas, client, 900, client_id="y" * 30_000 + str(number))
        assert len(client.throttles) == number + 1, "each has a quota of its own"
    kept = [*quotas._meters, *(rate for rates in quotas._rates.values() for rate in rates._uses)]
    assert len(kept) == 6
    assert all(len(text or "") <= client_quotas.CLIENT_ID_CHARACTERS_MAX for named in kept for text in named)
    assert client.meters is not None
    assert len(client.meters.client_id or "") <= client_quotas.CLIENT_ID_CHARACTERS_MAX


def test_a_quota_of_a_long_client_id_holds() -> None:
    long = "y" * 30_000
    quotas, client = quotas_of({QuotaEntity(((CLIENT_ID, long),)): {"producer_byte_rate": 100.0}}), Throttled()
    produce(quotas, client, 10_000, client_id=long)
    assert client.throttles


def test_a_bucket_of_mutations_outlives_a_flood_of_client_ids(monkeypatch: Any) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 10)
    monkeypatch.setattr(client_quotas, "METERS_MAX", 10)
    quotas = quotas_of({BY_CLIENT_ID: {"controller_mutation_rate": 1.0}})
    admitted(quotas, Throttled(), "app", [100], lambda count: count, is_strict=True)
    for user in "efgh":
        for number in range(20):
            client = Throttled(Principal("User", user))
            admitted(quotas, client, f"{number}", [1], lambda count: count, is_strict=True)
    assert sum(map(len, quotas._buckets.values())) <= 10
    assert admitted(quotas, Throttled(), "app", [1], lambda count: count, is_strict=True) == ([], [1])
