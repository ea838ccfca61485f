"""A seed's schedule is always the same, stays within its time, and leaves the cluster what its guarantee needs."""

import pytest

from tests.faults.fault import (
    BROKER,
    CLIENTS,
    ETCD,
    LOSSES,
    MIRROR_OPERATIONS,
    OPERATIONS,
    Fault,
    HostileBehaviour,
    Kind,
    Members,
    id_of,
    links_between,
    role_of,
)
from tests.faults.operation_schedule import REPLICAS_MIN, RISKY_BESIDE_LOSSES, Operated
from tests.faults.schedule import (
    BROKERS,
    DISK_ERRORS,
    DURATIONS_S,
    EXCLUSIVE,
    FIRST_FAULT_S,
    LAST_QUIET_S,
    LOSSES_MAX,
    Schedule,
    is_allowed,
    make_schedule,
    members_of,
)

MEMBERS = Members()
SEEDS = range(60)
FAILURES = frozenset(Kind) - OPERATIONS - MIRROR_OPERATIONS
OPERATED = Operated(topics=("fruit", "metal"), partitions=3, factor=3, unclean_topic="unsure")


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    return [make_schedule(seed, MEMBERS, seconds=55) for seed in SEEDS]


def fault(kind: Kind, *targets: str, from_s: float = 1, until_s: float = 2) -> Fault:
    return Fault(kind=kind, targets=targets, from_s=from_s, until_s=until_s)


def test_a_seed_gives_the_same_schedule_again():
    assert make_schedule(7, MEMBERS, seconds=55) == make_schedule(7, MEMBERS, seconds=55)
    assert make_schedule(7, MEMBERS, seconds=55) != make_schedule(8, MEMBERS, seconds=55)


def test_every_fault_is_over_in_time_and_lasts(schedules: list[Schedule]):
    for schedule in schedules:
        assert schedule.faults
        for each in schedule.faults:
            assert each.from_s >= FIRST_FAULT_S
            assert each.until_s - each.from_s >= DURATIONS_S[each.kind][0] - 0.11
            assert each.until_s <= schedule.seconds - LAST_QUIET_S


def test_all_kinds_come_and_faults_overlap(schedules: list[Schedule]):
    everything = [each for schedule in schedules for each in schedule.faults]
    assert {each.kind for each in everything} == FAILURES
    together = [
        schedule
        for schedule in schedules
        if any(one.overlaps(other) for one in schedule.faults for other in schedule.faults if one is not other)
    ]
    assert len(together) > len(schedules) / 2


def test_operators_work_beside_the_same_faults(schedules: list[Schedule]):
    found = set()
    for seed, schedule in zip(SEEDS, schedules, strict=True):
        both = make_schedule(seed, MEMBERS, seconds=55, operated=OPERATED).faults
        assert [each for each in both if each.kind not in OPERATIONS] == list(schedule.faults)
        found |= {each.kind for each in both} & OPERATIONS
    assert found == OPERATIONS


def test_operators_leave_each_partition_the_replicas_that_its_records_need():
    for seed in SEEDS:
        schedule = make_schedule(seed, MEMBERS, seconds=55, operated=OPERATED)
        wanted = [each for each in schedule.faults if each.kind in OPERATIONS]
        factors = [int(each.wanted) for each in wanted if each.kind is Kind.FACTOR]
        assert all(REPLICAS_MIN <= factor <= MEMBERS.brokers for factor in factors)
        if any(each.kind in LOSSES for each in schedule.faults):
            assert not any(each.wanted in RISKY_BESIDE_LOSSES for each in wanted)


def test_only_topics_whose_records_may_be_lost_have_unclean_elections():
    for seed in SEEDS:
        for each in make_schedule(seed, MEMBERS, seconds=55, operated=OPERATED).faults:
            assert "unclean" not in each.wanted or each.targets == ("unsure",)


def test_only_what_is_possible_comes():
    schedule = make_schedule(3, MEMBERS, seconds=600, kinds={Kind.KILL, Kind.PAUSE})
    assert {each.kind for each in schedule.faults} == {Kind.KILL, Kind.PAUSE}


def test_one_broker_at_most_loses_data_and_etcd_never_does(schedules: list[Schedule]):
    for schedule in schedules:
        losing = [each for each in schedule.faults if each.kind in LOSSES]
        assert len(losing) <= LOSSES_MAX
        assert all(len(each.targets) == 1 and role_of(each.targets[0]) == BROKER for each in losing)


def test_disks_refuse_writes_for_want_of_space_or_because_they_are_broken(schedules: list[Schedule]):
    wanted = [each.wanted for schedule in schedules for each in schedule.faults if each.kind is Kind.REFUSING_DISK]
    assert set(wanted) == set(DISK_ERRORS)


def test_hostile_clients_behave_in_every_way(schedules: list[Schedule]):
    wanted = [each.wanted for schedule in schedules for each in schedule.faults if each.kind is Kind.HOSTILE]
    assert {what for each in wanted for what in each.split(", ")} == set(HostileBehaviour)


def test_some_seeds_have_a_broker_more_than_partitions_have_replicas():
    assert {members_of(seed).brokers for seed in SEEDS} == set(BROKERS)
    assert members_of(7) == members_of(7)
    schedule = make_schedule(7, Members(brokers=4), seconds=600, operated=OPERATED)
    moved = [each.wanted for each in schedule.faults if each.kind is Kind.REASSIGN]
    assert any("4" in each for each in moved)
    assert not any(each.count(",") > 2 for each in moved)


def test_no_process_suffers_two_faults_that_exclude_each_other(schedules: list[Schedule]):
    for schedule in schedules:
        exclusive = [each for each in schedule.faults if each.kind in EXCLUSIVE]
        for number, one in enumerate(exclusive):
            for other in exclusive[number + 1 :]:
                assert not one.overlaps(other) or set(one.targets).isdisjoint(other.targets)


def test_there_is_quiet_time_between_episodes(schedules: list[Schedule]):
    for schedule in schedules:
        in_force_s = (
            sum(
                any(each.from_s <= tenth / 10 <= each.until_s for each in schedule.faults)
                for tenth in range(int(schedule.seconds * 10))
            )
            / 10
        )
        assert in_force_s < schedule.seconds * 0.95


def test_clocks_of_services_jump_and_those_of_etcd_do_not(schedules: list[Schedule]):
    jumping = {target for schedule in schedules for target in schedule.targets_of(Kind.CLOCK)}
    assert jumping == set(MEMBERS.services)


def test_cuts_name_links_between_known_processes(schedules: list[Schedule]):
    known = {*MEMBERS.all, CLIENTS}
    for schedule in schedules:
        for each in schedule.faults:
            assert bool(each.links) == (each.kind is Kind.CUT)
            assert all(sender != receiver and {sender, receiver} <= known for sender, receiver in each.links)


def test_a_second_loss_and_a_second_kill_are_refused():
    wiped = fault(Kind.WIPE, "broker-1")
    assert not is_allowed(fault(Kind.UNSYNCED_DISK, "broker-2", from_s=30, until_s=31), [wiped])
    assert not is_allowed(fault(Kind.WIPE, "broker-2", from_s=30, until_s=31), [wiped])
    assert not is_allowed(fault(Kind.KILL, "broker-1"), [wiped])
    assert is_allowed(fault(Kind.KILL, "broker-2"), [wiped])
    assert is_allowed(fault(Kind.KILL, "broker-1", from_s=3, until_s=4), [wiped])


def test_links_between_processes_go_one_way_or_both():
    assert links_between(["a"], ["a", "b"]) == {("a", "b"), ("b", "a")}
    assert links_between(["a"], ["a", "b"], both_ways=False) == {("a", "b")}


def test_a_printed_fault_says_what_happens_to_whom_and_when():
    assert str(fault(Kind.KILL, "broker-1", "broker-2")) == "  1.0-  2.0 s  kill broker-1, broker-2"
    assert (role_of("group-coordinator-2"), id_of("group-coordinator-2")) == ("group-coordinator", 2)
    assert MEMBERS.of(ETCD) == ("etcd-1", "etcd-2", "etcd-3")
