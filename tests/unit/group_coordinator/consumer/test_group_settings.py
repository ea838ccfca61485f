"""What holds for members of a group that has settings of its own."""

from ottla_group_coordinator.settings import GroupSettings

SETTINGS = GroupSettings(
    consumer_session_timeout_ms=6000,
    consumer_min_session_timeout_ms=2000,
    consumer_max_session_timeout_ms=9000,
    consumer_heartbeat_interval_ms=1000,
    consumer_min_heartbeat_interval_ms=500,
    consumer_max_heartbeat_interval_ms=3000,
)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_goes_by_its_own_settings_and_else_by_those_of_all() -> None:
    for own, session_ms, heartbeat_ms in (
        (None, 6000, 1000),
        ({SESSION: "8000"}, 8000, 1000),
        ({HEARTBEAT: "700"}, 6000, 700),
        ({SESSION: "1", HEARTBEAT: "9999"}, 2000, 3000),
    ):
        assert SETTINGS.session_timeout_ms_of(own) == session_ms
        assert SETTINGS.heartbeat_interval_ms_of(own) == heartbeat_ms
