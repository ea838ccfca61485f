"""What is counted of clients, and when they are throttled."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

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
    quotas, client = quotas_of({QuotaEntity(((CLIENT_ID, None),)): {"producer_byte_rate": 1.0}}), Throttled()
    for number in range(100):
        produce(quotas, client, 1, client_id=str(number))
    assert len(quotas._meters) <= 10
    assert len(quotas._rates) <= 10
