"""How often and how soon a crashed process starts again."""

from ottla.local.restart_policy import DELAY_FIRST_S, RESTARTS_MAX, WINDOW_S, RestartPolicy


def test_each_crash_waits_twice_as_long_as_the_one_before():
    policy = RestartPolicy()
    delays = [policy.delay_after_crash_s(float(now)) for now in range(3)]
    assert delays == [DELAY_FIRST_S, 2 * DELAY_FIRST_S, 4 * DELAY_FIRST_S]


def test_a_process_that_keeps_crashing_is_given_up():
    policy = RestartPolicy()
    delays = [policy.delay_after_crash_s(0.0) for _ in range(RESTARTS_MAX + 1)]
    assert None not in delays[:-1]
    assert delays[-1] is None


def test_old_crashes_are_forgotten():
    policy = RestartPolicy()
    for _ in range(RESTARTS_MAX):
        policy.delay_after_crash_s(0.0)
    assert policy.delay_after_crash_s(WINDOW_S + 1) == DELAY_FIRST_S
