"""The settings of single groups."""

import pytest

from ottla_core.errors import InvalidConfig
from ottla_core.group_config import (
    GROUP_CONFIG_DEFINITIONS,
    ConsumerGroupLimits,
    check_group_configs,
    heartbeat_interval_ms,
    session_timeout_ms,
)

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
LIMITS = ConsumerGroupLimits(
    session_timeout_ms=6000,
    session_timeout_ms_min=2000,
    session_timeout_ms_max=9000,
    heartbeat_interval_ms=1000,
    heartbeat_interval_ms_min=500,
    heartbeat_interval_ms_max=3000,
)


def test_every_default_is_a_value():
    for each in GROUP_CONFIG_DEFINITIONS.values():
        each.definition.parse(each.default)


def test_values_at_the_limits_are_taken():
    for session, heartbeat in (("2000", "500"), ("9000", "3000")):
        check_group_configs({SESSION: session, HEARTBEAT: heartbeat}, LIMITS)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"no.such.key": "1"}, "Unknown group config name: no.such.key"),
        ({SESSION: "soon"}, "Not a number"),
        ({SESSION: "0"}, "at least 1"),
        ({SESSION: "1999"}, r"greater than or equal to group.consumer.min.session.timeout.ms \(2000\)"),
        ({SESSION: "9001"}, r"less than or equal to group.consumer.max.session.timeout.ms \(9000\)"),
        ({HEARTBEAT: "499"}, r"greater than or equal to group.consumer.min.heartbeat.interval.ms \(500\)"),
        ({HEARTBEAT: "3001"}, r"less than or equal to group.consumer.max.heartbeat.interval.ms \(3000\)"),
        ({SESSION: "2500", HEARTBEAT: "2500"}, r"\(2500\) must be greater than .* \(2500\)"),
        ({"share.isolation.level": "none"}, "must be one of"),
    ],
)
def test_what_is_unknown_unreadable_or_beyond_the_limits_is_refused(configs, message):
    with pytest.raises(InvalidConfig, match=message):
        check_group_configs(configs, LIMITS)


def test_limits_bind_what_groups_are_given_and_not_what_holds_for_all():
    loose = ConsumerGroupLimits(session_timeout_ms=100, heartbeat_interval_ms=10)
    check_group_configs({"share.session.timeout.ms": "1"}, loose)
    assert (session_timeout_ms(None, loose), heartbeat_interval_ms({}, loose)) == (100, 10)


def test_a_group_goes_by_its_own_settings_within_the_present_limits():
    own = {SESSION: "7000", HEARTBEAT: "2000"}
    assert (session_timeout_ms(own, LIMITS), heartbeat_interval_ms(own, LIMITS)) == (7000, 2000)
    far = {SESSION: "100000", HEARTBEAT: "1"}
    assert (session_timeout_ms(far, LIMITS), heartbeat_interval_ms(far, LIMITS)) == (9000, 500)
