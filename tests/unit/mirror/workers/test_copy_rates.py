"""How fast a partition is copied, and for how long it has been behind."""

from ottla_mirror.workers.copy_rates import SAMPLES_MAX, CopyRates, Sample


def rates(*samples: tuple[float, int, int]) -> CopyRates:
    """Samples as time, records copied, the source's end; a record has ten bytes."""
    found = CopyRates()
    for time_s, records, end in samples:
        found.take(Sample(time_s, records, records * 10, end))
    return found


def test_rates_are_those_of_the_last_seconds():
    found = rates((0, 0, 100), (100, 50, 100), (105, 100, 100))
    assert found.per_second(105) == (10.0, 100.0)


def test_without_two_samples_nothing_is_known():
    assert rates().per_second(5) == (0.0, 0.0)
    assert rates((0, 5, 5)).per_second(0) == (0.0, 0.0)


def test_a_partition_that_has_stopped_comes_to_nought():
    found = rates((0, 0, 10), (1, 10, 10), *((float(second), 10, 10) for second in range(2, 40)))
    assert found.per_second(39)[0] == 0.0


def test_it_is_behind_since_the_source_had_what_is_not_copied():
    found = rates((0, 0, 5), (1, 5, 5), (2, 5, 20), (3, 5, 30))
    assert found.behind_s(5, 10) == 8
    assert found.behind_s(20, 10) == 7
    assert found.behind_s(30, 10) == 0
    assert rates().behind_s(0, 10) == 0


def test_samples_are_bounded():
    found = rates(*((float(number), number, number) for number in range(SAMPLES_MAX * 2)))
    assert len(found._samples) == SAMPLES_MAX
