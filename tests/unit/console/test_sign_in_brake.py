"""Guessing passwords gets slower with each failure; who has the right one waits, and gets in."""

import pytest

from ottla_console.access import sign_in_brake
from ottla_console.access.sign_in_brake import OF_ADDRESS, OF_USER, SignInBrake

HERE, THERE = "192.0.2.1", "192.0.2.2"


def waits_of(brake: SignInBrake, attempts: int) -> list[int]:
    """Has as many attempts fail, each as early as it may be made."""
    now_s, waits = 0.0, []
    for number in range(attempts):
        wait_s = brake.begin("prod", "ann", f"192.0.2.{number}", now_s)
        if wait_s:
            waits.append(wait_s)
            now_s += wait_s
            assert brake.begin("prod", "ann", f"192.0.2.{number}", now_s) == 0
    return waits


def test_each_failure_of_a_user_doubles_the_wait_up_to_a_longest() -> None:
    waits = waits_of(SignInBrake(), 15)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_an_attempt_during_the_wait_is_not_made_and_makes_it_no_longer() -> None:
    brake = SignInBrake()
    for _ in range(OF_USER.free + 3):
        brake.begin("prod", "ann", HERE, 0.0)
    assert brake.begin("prod", "ann", THERE, 0.5) == 1
    assert brake.begin("prod", "ann", THERE, 0.5) == 1
    assert brake.begin("prod", "ann", THERE, 1.0) == 0
    assert brake.delayed == {"user": 5, "address": 0}


def test_attempts_at_the_same_time_win_nothing() -> None:
    brake = SignInBrake()
    assert sum(brake.begin("prod", "ann", HERE, 0.0) == 0 for _ in range(100)) == OF_USER.free


def test_the_right_password_after_the_wait_wipes_a_users_failures_out() -> None:
    brake = SignInBrake()
    for _ in range(OF_USER.free):
        brake.begin("prod", "ann", HERE, 0.0)
    assert brake.begin("prod", "ann", HERE, 1.0) == 0
    brake.succeeded("prod", "ann", HERE)
    assert [brake.begin("prod", "ann", THERE, 1.0) for _ in range(OF_USER.free)] == [0] * OF_USER.free
    assert brake.begin("test", "ann", THERE, 1.0) == 0


def test_an_address_that_tries_many_users_is_slowed_and_a_user_of_its_own_does_not_help_it() -> None:
    brake = SignInBrake()
    for number in range(OF_ADDRESS.free):
        assert brake.begin("prod", f"user-{number}", HERE, 0.0) == 0
    assert brake.begin("prod", "own", HERE, 0.0) == 1
    assert brake.begin("prod", "own", THERE, 0.0) == 0
    brake.succeeded("prod", "own", HERE)
    brake.succeeded("prod", "own", HERE)
    brake.begin("prod", "next", HERE, 0.0)
    brake.begin("prod", "next but one", HERE, 0.0)
    assert brake.begin("prod", "own", HERE, 0.0) == 1
    assert brake.delayed["address"] == 2


def test_hosts_of_one_ipv6_network_are_one_address() -> None:
    brake = SignInBrake()
    for number in range(OF_ADDRESS.free):
        brake.begin("prod", f"user-{number}", f"2001:db8::{number:x}", 0.0)
    assert brake.begin("prod", "ann", "2001:db8::ffff", 0.0) == 1
    assert brake.begin("prod", "ann", "2001:db8:0:1::1", 0.0) == 0
    assert brake.begin("prod", "bob", f"::ffff:{THERE}", 0.0) == 0


def test_attempts_that_a_cluster_has_not_judged_do_not_count() -> None:
    brake = SignInBrake()
    for _ in range(100):
        assert brake.begin("prod", "ann", HERE, 0.0) == 0
        brake.not_judged("prod", "ann", HERE)
    assert len(brake) == 0


def test_failures_are_forgotten_and_bounded() -> None:
    brake = SignInBrake()
    for _ in range(OF_USER.free):
        brake.begin("prod", "ann", HERE, 0.0)
    assert brake.begin("prod", "ann", HERE, sign_in_brake.FORGOTTEN_AFTER_S) == 0
    most = sign_in_brake.ENTRIES_MAX
    for number in range(most + 100):
        brake.begin("prod", f"{'x' * 4000}{number}", f"10.0.{number // 256}.{number % 256}", 4000.0)
    assert len(brake) == 2 * most


def fail(brake: SignInBrake, user: int, times: int, now_s: float = 0.0) -> None:
    """Has attempts of a user fail, each from an address of its own."""
    for number in range(times):
        host = user * OF_USER.free + number
        assert brake.begin("prod", f"user-{user}", f"10.{host >> 16}.{host >> 8 & 255}.{host & 255}", now_s) == 0


def test_failures_of_many_others_do_not_end_a_users_wait() -> None:
    brake = SignInBrake()
    fail(brake, 0, OF_USER.free)
    for user in range(1, sign_in_brake.ENTRIES_MAX + 100):
        fail(brake, user, 1)
    assert brake.begin("prod", "user-0", HERE, 0.5) == 1
    assert len(brake) == 2 * sign_in_brake.ENTRIES_MAX


def test_newcomers_are_slowed_together_while_all_that_are_known_are_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_brake, "ENTRIES_MAX", 50)
    brake = SignInBrake()
    for user in range(50):
        fail(brake, user, OF_USER.free)
    for number in range(OF_USER.free):
        assert brake.begin("prod", f"new-{number}", HERE, 0.5) == 0
    assert brake.begin("prod", "one more", THERE, 0.5) == 1
    assert brake.begin("prod", "user-0", THERE, 0.5) == 1
    assert len(brake) <= 100


def test_who_signs_in_takes_back_one_failure_of_the_newcomers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_brake, "ENTRIES_MAX", 50)
    brake = SignInBrake()
    for user in range(50):
        fail(brake, user, OF_USER.free)
    for number in range(OF_USER.free):
        brake.begin("prod", f"new-{number}", HERE, 0.5)
    assert brake.begin("prod", "own", THERE, 1.5) == 0
    brake.succeeded("prod", "own", THERE)
    assert brake.begin("prod", "one more", THERE, 1.5) == 1


def test_newcomers_are_known_again_when_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in_brake, "ENTRIES_MAX", 50)
    brake = SignInBrake()
    for user in range(50):
        fail(brake, user, OF_USER.free)
    for number in range(OF_USER.free):
        brake.begin("prod", f"new-{number}", HERE, 0.5)
    later_s = sign_in_brake.FORGOTTEN_AFTER_S + 1
    assert [brake.begin("prod", "ann", THERE, later_s) for _ in range(OF_USER.free + 1)] == [0, 0, 0, 1]
    assert brake.begin("prod", "bob", THERE, later_s) == 0
