"""A seed's faults of two clusters are always the same, are over in time, and hit every part."""

from tests.faults.fault import BROKER, MIRROR_OPERATIONS, Kind, role_of, site_of
from tests.faults.mirrors.schedule import MIRROR_DURATIONS_S, WEIGHTS, make_mirror_schedule
from tests.faults.mirrors.sites import MIRROR, all_names
from tests.faults.schedule import FIRST_FAULT_S, LAST_QUIET_S, Schedule
from tests.faults.topics import SOURCE, TARGET

SECONDS = 55.0
SEEDS = range(60)


def schedules() -> list[Schedule]:
    return [make_mirror_schedule(seed, seconds=SECONDS) for seed in SEEDS]


def test_a_seed_gives_the_same_schedule_again():
    assert make_mirror_schedule(7, seconds=SECONDS) == make_mirror_schedule(7, seconds=SECONDS)
    assert make_mirror_schedule(7, seconds=SECONDS) != make_mirror_schedule(8, seconds=SECONDS)


def test_every_fault_is_over_in_time_and_lasts():
    for schedule in schedules():
        assert schedule.faults
        for each in schedule.faults:
            assert each.from_s >= FIRST_FAULT_S
            assert each.until_s - each.from_s >= MIRROR_DURATIONS_S[each.kind][0] - 0.11
            assert each.until_s <= SECONDS - LAST_QUIET_S


def test_every_kind_and_every_process_has_its_turn():
    faults = [fault for schedule in schedules() for fault in schedule.faults]
    assert {fault.kind for fault in faults} == set(WEIGHTS)
    assert set(WEIGHTS) >= MIRROR_OPERATIONS
    killed = {name for fault in faults if fault.kind is Kind.KILL for name in fault.targets}
    assert {(site_of(name), role_of(name)) for name in killed} >= {("", MIRROR), (SOURCE, BROKER), (TARGET, BROKER)}
    assert killed <= set(all_names())


def test_no_disk_of_the_source_is_touched():
    for schedule in schedules():
        assert not any(site_of(name) == SOURCE for name in schedule.targets_of(Kind.FULL_DISK))
        assert not schedule.targets_of(Kind.WIPE)


def test_links_are_cut_one_way_and_both_ways():
    cuts = [fault for schedule in schedules() for fault in schedule.faults if fault.kind is Kind.CUT]
    both = [{(receiver, sender) for sender, receiver in fault.links} == fault.links for fault in cuts]
    assert any(both)
    assert not all(both)
