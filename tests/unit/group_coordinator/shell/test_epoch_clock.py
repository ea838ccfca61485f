"""The time of groups goes on whatever happens to the system's clock."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ottla_group_coordinator.epoch_clock import EpochClock


@dataclass
class SystemUnderAdministration:
    """A clock that is set by hand while time passes."""

    wall_ms: int = 1_700_000_000_000
    monotonic_s: float = 5000.0

    def time_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.monotonic_s

    def pass_ms(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.monotonic_s += duration_ms / 1000


def test_it_shows_the_systems_time() -> None:
    system = SystemUnderAdministration()
    clock = EpochClock(system)
    system.pass_ms(1500)
    assert abs(clock.now_ms() - system.wall_ms) <= 1


def test_a_clock_that_is_set_back_does_not_hold_it_up() -> None:
    system = SystemUnderAdministration()
    clock = EpochClock(system)
    before_ms = clock.now_ms()
    system.wall_ms -= 3_600_000
    system.pass_ms(1000)
    assert 999 <= clock.now_ms() - before_ms <= 1001


def test_a_clock_that_is_set_forward_is_followed() -> None:
    system = SystemUnderAdministration()
    clock = EpochClock(system)
    system.wall_ms += 3_600_000
    assert abs(clock.now_ms() - system.wall_ms) <= 1


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(-(10**7), 10**7))))
def test_it_never_goes_back_nor_slower_than_time(events: list[tuple[int, int]]) -> None:
    system = SystemUnderAdministration()
    clock = EpochClock(system)
    last_ms = clock.now_ms()
    for duration_ms, step_ms in events:
        system.wall_ms += step_ms
        system.pass_ms(duration_ms)
        now_ms = clock.now_ms()
        assert now_ms >= last_ms + duration_ms - 1
        last_ms = now_ms
