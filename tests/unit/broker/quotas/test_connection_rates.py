"""How fast connections may come, in all and from one address."""

from ottla_broker.quotas import connection_rates
from ottla_broker.quotas.connection_limits import ConnectionLimits, ListenerLimits
from ottla_broker.quotas.connection_rates import PAUSE_MS_MAX, UNLIMITED, ConnectionRates
from ottla_broker.quotas.sampled_rate import RateWindow

WINDOW = RateWindow(samples=11, sample_ms=1000)


def limits(*, all_of: int = UNLIMITED, clients: int = UNLIMITED, brokers: int = UNLIMITED) -> ConnectionLimits:
    """Rates of a broker, and of its listeners CLIENTS and BROKERS, in connections per second."""
    return ConnectionLimits(
        connections=100,
        per_second=all_of,
        per_address=100,
        addresses={},
        listeners={
            "CLIENTS": ListenerLimits(connections=100, per_second=clients),
            "BROKERS": ListenerLimits(connections=100, per_second=brokers),
        },
        protected="BROKERS",
        files=100,
    )


def test_nothing_is_accepted_while_connections_come_too_fast() -> None:
    rates = ConnectionRates(WINDOW)
    pauses = [rates.accepted(limits(all_of=1), "CLIENTS", 0) for _ in range(11)]
    assert pauses == [0] * 10 + [PAUSE_MS_MAX]
    assert rates.accepted(limits(all_of=1), "CLIENTS", 30_000) == 0


def test_a_listener_has_a_rate_of_its_own_and_others_are_not_held_up() -> None:
    rates = ConnectionRates(WINDOW)
    pauses = [rates.accepted(limits(clients=1), "CLIENTS", 0) for _ in range(11)]
    assert pauses == [0] * 10 + [PAUSE_MS_MAX]
    assert not any(rates.accepted(limits(clients=1), "BROKERS", 0) for _ in range(100))


def test_the_brokers_rate_does_not_hold_for_the_listener_among_brokers() -> None:
    rates = ConnectionRates(WINDOW)
    assert not any(rates.accepted(limits(all_of=1), "BROKERS", 0) for _ in range(100))
    assert rates.accepted(limits(all_of=1), "CLIENTS", 0) == 0, "nor does what it accepts count for others"
    assert any(rates.accepted(limits(brokers=1), "BROKERS", 0) for _ in range(100)), "its own rate does"


def test_an_address_above_its_rate_is_held_back_and_others_are_not() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({"10.0.0.1": 1.0, None: 100.0})
    held = [rates.excess_ms("10.0.0.1", 0) for _ in range(12)]
    assert held[:10] == [0] * 10
    assert all(held[10:])
    assert rates.excess_ms("10.0.0.2", 0) == 0


def test_what_is_held_back_does_not_count() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({None: 1.0})
    for _ in range(1000):
        rates.excess_ms("10.0.0.1", 0)
    assert rates.excess_ms("10.0.0.1", 11_500) == 0


def test_addresses_without_a_rate_are_not_limited() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({"10.0.0.1": 1.0})
    assert not any(rates.excess_ms("10.0.0.2", 0) for _ in range(1000))


def test_the_addresses_that_are_remembered_are_bounded() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({None: 1.0})
    for number in range(connection_rates.ADDRESSES_MAX + 100):
        rates.excess_ms(str(number), 0)
    assert len(rates._of_addresses) == connection_rates.ADDRESSES_MAX


def test_an_address_that_has_used_its_rate_is_not_forgotten_for_others() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({None: 1.0})
    while not rates.excess_ms("10.0.0.1", 0):
        pass
    for number in range(connection_rates.ADDRESSES_MAX + 100):
        rates.excess_ms(str(number), 0)
    assert rates.excess_ms("10.0.0.1", 0)
    assert rates.excess_ms("10.0.0.1", WINDOW.milliseconds) == 0


def test_one_network_of_ipv6_leaves_room_for_other_addresses() -> None:
    rates = ConnectionRates(WINDOW)
    rates.limit_addresses({None: 1.0})
    for number in range(2 * connection_rates.ADDRESSES_MAX):
        rates.excess_ms(f"2001:db8::{number:x}", 0)
    assert [rates.excess_ms("2001:db9::1", 0) for _ in range(10)] == [0] * 10
