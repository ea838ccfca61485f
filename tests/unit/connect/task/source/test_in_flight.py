"""The acknowledged prefix of each source partition."""

from ottla_connect.task.source.in_flight import InFlight, Run, identity

A, B = {"file": "a"}, {"file": "b"}


def sent(in_flight: InFlight, partition: dict[str, str], *positions: int) -> Run:
    run = in_flight.begin(partition)
    for position in positions:
        run.outstanding += 1
        run.offset = {"position": position}
    run.seal()
    return run


def committable(in_flight: InFlight) -> dict[str, int]:
    return {each.partition["file"]: each.offset["position"] for each in in_flight.take_committable().values()}


def test_nothing_is_committable_before_it_is_acknowledged():
    in_flight = InFlight()
    sent(in_flight, A, 1, 2)
    assert committable(in_flight) == {}


def test_a_run_is_committable_once_its_last_record_is_acknowledged():
    in_flight = InFlight()
    run = sent(in_flight, A, 1, 2)
    run.outstanding -= 1
    assert committable(in_flight) == {}
    run.outstanding -= 1
    assert committable(in_flight) == {"a": 2}


def test_what_was_taken_does_not_come_again():
    in_flight = InFlight()
    sent(in_flight, A, 1).outstanding = 0
    assert committable(in_flight) == {"a": 1}
    assert committable(in_flight) == {}


def test_a_later_run_waits_for_an_earlier_one_of_the_same_partition():
    in_flight = InFlight()
    first, second = sent(in_flight, A, 1), sent(in_flight, A, 2)
    second.outstanding = 0
    assert committable(in_flight) == {}
    first.outstanding = 0
    assert committable(in_flight) == {"a": 2}


def test_partitions_do_not_wait_for_each_other():
    in_flight = InFlight()
    sent(in_flight, A, 1)
    sent(in_flight, B, 7).outstanding = 0
    assert committable(in_flight) == {"b": 7}


def test_equal_partitions_are_one_whatever_the_order_of_their_keys():
    in_flight = InFlight()
    first = in_flight.begin({"file": "a", "host": "h"})
    second = in_flight.begin({"host": "h", "file": "a"})
    for run in (first, second):
        run.offset = {"position": 1}
        run.seal()
    first.outstanding = 1
    assert in_flight.take_committable() == {}
    assert identity({"x": 1, "y": [2]}) == identity({"y": [2], "x": 1})


def test_a_run_that_is_still_growing_is_not_committable():
    in_flight = InFlight()
    run = in_flight.begin(A)
    run.offset = {"position": 1}
    assert committable(in_flight) == {}


def test_a_run_of_dropped_records_moves_the_offset_on():
    in_flight = InFlight()
    run = in_flight.begin(A)
    run.offset = {"position": 9}
    run.seal()
    assert committable(in_flight) == {"a": 9}


def test_a_run_without_records_says_nothing():
    in_flight = InFlight()
    in_flight.begin(A).seal()
    assert committable(in_flight) == {}


def test_an_offset_that_its_owner_changes_later_stays_as_it_was():
    in_flight = InFlight()
    offset = {"position": 1}
    run = in_flight.begin(A)
    run.offset = offset
    run.seal()
    offset["position"] = 99
    assert committable(in_flight) == {"a": 1}
