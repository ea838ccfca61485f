"""What is counted of requests that are measured."""

from ottla_broker import request_times
from ottla_broker.request_times import MEASURED_ONE_IN, PARTS, ApiTimes


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch):
        self.now_ns = 10**12
        monkeypatch.setattr(request_times, "now_ns", lambda: self.now_ns)

    def pass_ms(self, ms):
        self.now_ns += ms * 10**6


def taken_ms(times):
    return {part: spent.total_ns // 10**6 for part, spent in zip(PARTS, times.parts, strict=True)}


def test_the_parts_of_a_request_add_up_to_the_whole(monkeypatch):
    clock = Clock(monkeypatch)
    times = ApiTimes(are_shown=True)
    times.count = 1
    read_ns = clock.now_ns
    clock.pass_ms(1)
    measured = times.measure()
    measured.note_read(read_ns, read_ns / 1e9)
    for ms, note in ((2, measured.note_handled), (4, measured.note_answered), (8, measured.note_queued)):
        clock.pass_ms(ms)
        note()
    clock.pass_ms(16)
    measured.note_sent()
    assert taken_ms(times) == {"queue": 1, "local": 2, "remote": 4, "response_queue": 8, "send": 16}
    assert times.whole.total_ns == 31 * 10**6


def test_a_wait_in_the_turn_of_the_event_loop_counts_when_its_coarse_clock_can_tell(monkeypatch):
    clock = Clock(monkeypatch)
    for waited_ms, queue_ms in ((1, 0), (5, 5)):
        times = ApiTimes(are_shown=True)
        times.count = 1
        measured = times.measure()
        measured.note_read(clock.now_ns, clock.now_ns / 1e9 - waited_ms / 1000)
        measured.note_answered()
        measured.note_queued()
        measured.note_sent()
        assert taken_ms(times)["queue"] == queue_ms


def requested(times, clock, count, every_ms):
    """Have requests come, and answer them at once."""
    for _ in range(count):
        clock.pass_ms(every_ms)
        times.count += 1
        if times.count >= times.due:
            measured = times.measure()
            measured.note_answered()
            measured.note_queued()
            measured.note_sent()


def test_every_request_of_an_api_that_is_asked_for_rarely_is_measured(monkeypatch):
    times = ApiTimes(are_shown=True)
    requested(times, Clock(monkeypatch), 50, every_ms=20)
    assert times.whole.coarse_reading().count == 50
    assert times.due == 51


def test_a_few_requests_that_come_close_stand_for_all(monkeypatch):
    times = ApiTimes(are_shown=True)
    clock = Clock(monkeypatch)
    measured = []
    measure = ApiTimes.measure
    monkeypatch.setattr(ApiTimes, "measure", lambda self: (measured.append(1), measure(self))[1])
    requested(times, clock, 1000 * MEASURED_ONE_IN, every_ms=0)
    assert 800 < len(measured) < 1200
    assert 998 * MEASURED_ONE_IN < times.whole.coarse_reading().count <= 1000 * MEASURED_ONE_IN


def test_nothing_is_measured_where_nobody_looks(monkeypatch):
    times = ApiTimes(are_shown=False)
    requested(times, Clock(monkeypatch), 100, every_ms=20)
    assert times.whole.coarse_reading().count == 0
