"""Deadlines go by the time that somebody listened; timestamps follow the system's clock, but not its leaps."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ottla_group_coordinator.runtime.awake_clock import UNATTENDED_MS_MAX, AwakeClock
from ottla_group_coordinator.runtime.shard_time import CATCH_UP_RATE, ShardTime

HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS
WALL_MS = 1_700_000_000_000


@dataclass
class SystemUnderAdministration:
    """A clock that is set by hand while time passes, and the time of a process that is awake as a rule."""

    wall_ms: int = WALL_MS
    monotonic_ms: int = 5_000_000
    awake_clock: AwakeClock = field(init=False)

    def __post_init__(self) -> None:
        self.awake_clock = AwakeClock(self)

    def time_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.monotonic_ms / 1000

    def sleep_ms(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.monotonic_ms += duration_ms

    def pass_ms(self, duration_ms: int) -> None:
        while duration_ms > 0:
            self.sleep_ms(min(duration_ms, UNATTENDED_MS_MAX))
            duration_ms -= UNATTENDED_MS_MAX
            self.awake_clock.tick()


def a_shard(system: SystemUnderAdministration) -> ShardTime:
    return ShardTime(system.awake_clock, system)


def test_time_goes_on_as_it_passes() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    before_ms = time.now_ms()
    system.pass_ms(1500)
    assert time.now_ms() - before_ms == 1500
    assert time.timestamp_ms() == system.wall_ms
    assert time.until_ms(before_ms + 2000) == 500


def test_a_process_that_slept_has_not_listened() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    before_ms = time.now_ms()
    system.sleep_ms(4000)
    assert time.now_ms() - before_ms == UNATTENDED_MS_MAX
    system.awake_clock.tick()
    system.pass_ms(1000)
    assert time.now_ms() - before_ms == UNATTENDED_MS_MAX + 1000


def test_time_that_is_held_does_not_count_whether_it_is_past_or_to_come() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    before_ms = time.now_ms()
    system.pass_ms(5000)
    time.hold(4000)
    assert time.now_ms() - before_ms == 1000
    time.hold(3000)
    assert time.now_ms() - before_ms == 1000, "it does not go back"
    assert time.until_ms(before_ms + 1500) == 3500
    system.pass_ms(3000)
    assert time.now_ms() - before_ms == 1000
    system.pass_ms(500)
    assert time.now_ms() - before_ms == 1500


def test_a_clock_that_is_set_changes_no_deadline() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    before_ms = time.now_ms()
    for step_ms in (MONTH_MS, -2 * MONTH_MS):
        system.wall_ms += step_ms
        system.pass_ms(1000)
    assert time.now_ms() - before_ms == 2000


def test_timestamps_follow_a_small_step_soon_and_a_leap_slowly() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    system.wall_ms += 1000
    system.pass_ms(1000)
    assert time.timestamp_ms() == system.wall_ms
    system.wall_ms += MONTH_MS
    system.pass_ms(HOUR_MS)
    assert time.timestamp_ms() - WALL_MS <= CATCH_UP_RATE * HOUR_MS + 3000


def test_timestamps_wait_for_a_clock_that_is_set_back() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    system.wall_ms -= 10_000
    system.pass_ms(10_000)
    assert time.timestamp_ms() == WALL_MS + 5_000
    system.pass_ms(20_000)
    assert time.timestamp_ms() == system.wall_ms


def test_timestamps_go_on_from_the_newest_record_whatever_the_clock_says() -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    time.go_on_from(WALL_MS - MONTH_MS)
    assert time.timestamp_ms() == WALL_MS - MONTH_MS
    system.pass_ms(HOUR_MS)
    assert time.timestamp_ms() == WALL_MS - MONTH_MS + CATCH_UP_RATE * HOUR_MS


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.integers(0, 20_000)),
            st.tuples(st.just("sleep"), st.integers(0, 20_000)),
            st.tuples(st.just("set"), st.integers(-MONTH_MS, MONTH_MS)),
            st.tuples(st.just("hold"), st.integers(0, 20_000)),
        ),
        max_size=30,
    )
)
def test_neither_time_goes_back_or_runs_away(events: list[tuple[str, int]]) -> None:
    system = SystemUnderAdministration()
    time = a_shard(system)
    begun_ms, begun_at_ms = time.now_ms(), system.monotonic_ms
    now_ms, timestamp_ms = time.now_ms(), time.timestamp_ms()
    for kind, value in events:
        match kind:
            case "pass":
                system.pass_ms(value)
            case "sleep":
                system.sleep_ms(value)
            case "set":
                system.wall_ms += value
            case "hold":
                time.hold(value)
        assert time.now_ms() >= now_ms
        assert timestamp_ms <= time.timestamp_ms() <= timestamp_ms + CATCH_UP_RATE * (time.now_ms() - now_ms) + 1
        now_ms, timestamp_ms = time.now_ms(), time.timestamp_ms()
    assert now_ms - begun_ms <= system.monotonic_ms - begun_at_ms
