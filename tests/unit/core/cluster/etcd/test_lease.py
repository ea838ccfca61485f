"""When a lease is valid, by the clock alone; and who counts as a predecessor."""

from uuid import UUID

import pytest

from ottla_core.cluster.etcd.lease import EtcdLease
from ottla_core.cluster.membership.election import Leadership
from ottla_core.cluster.membership.membership import is_predecessor
from ottla_core.cluster.state.model import Member, Role


class ManualClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time_ms(self) -> int:
        return 0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lease(clock: ManualClock) -> EtcdLease:
    """A lease that is valid until 102."""
    return EtcdLease(7, 2.0, clock.now + 2.0, clock)


def test_a_lease_is_valid_until_its_deadline(lease: EtcdLease, clock: ManualClock) -> None:
    assert lease.is_valid()
    clock.now = 101.99
    assert lease.is_valid()
    clock.now = 102.0
    assert not lease.is_valid()


def test_a_renewal_moves_the_deadline_forwards_only(lease: EtcdLease, clock: ManualClock) -> None:
    lease.renew(103.0)
    lease.renew(101.0)
    clock.now = 102.5
    assert lease.is_valid()


def test_a_renewal_that_comes_too_late_does_not_revive_a_lease(lease: EtcdLease, clock: ManualClock) -> None:
    clock.now = 102.0
    lease.renew(104.0)
    assert not lease.is_valid()


def test_an_ended_lease_is_not_valid(lease: EtcdLease) -> None:
    lease.end()
    assert not lease.is_valid()


def test_leadership_ends_with_its_lease_by_the_clock(lease: EtcdLease, clock: ManualClock) -> None:
    leadership = Leadership(5, lease)
    assert leadership.is_current()
    clock.now = 102.0
    assert not leadership.is_current()


def test_leadership_that_was_given_up_is_over_though_the_lease_is_valid(lease: EtcdLease) -> None:
    leadership = Leadership(5, lease)
    leadership.give_up()
    assert not leadership.is_current()
    assert lease.is_valid()


def broker(incarnation: int, *directories: int) -> Member:
    return Member(
        role=Role.BROKER,
        id=1,
        epoch=1,
        incarnation=UUID(int=incarnation),
        rpc_address="h:1",
        version="1",
        directory_ids=tuple(UUID(int=directory) for directory in directories),
    )


@pytest.mark.parametrize(
    ("holder", "candidate", "expected"),
    [
        (broker(1), broker(1), True),
        (broker(1, 10), broker(2, 10), True),
        (broker(1, 10, 11), broker(2, 11, 12), True),
        (broker(1, 10), broker(2, 11), False),
        (broker(1), broker(2), False),
    ],
)
def test_a_predecessor_is_the_same_process_or_had_a_log_directory_that_is_ours_now(
    holder: Member, candidate: Member, expected: bool
) -> None:
    assert is_predecessor(holder, candidate) is expected
