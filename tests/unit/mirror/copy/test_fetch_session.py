"""What a fetch asks, and what of it the broker knows already."""

from ottla_core.wire.consumer_fetch import FetchAsked, TopicKey
from ottla_mirror.copy.fetch_session import FetchSession


def asked(partition: int, offset: int) -> tuple[TopicKey, FetchAsked]:
    return "t", FetchAsked(partition, -1, offset, -1, 1000)


def test_only_what_has_changed_is_asked_once_there_is_a_session():
    session: FetchSession[str] = FetchSession(12)
    plan = session.plan({"a": asked(0, 5), "b": asked(1, 6)})
    assert plan.session == (0, 0)
    assert [each.fetch_offset for each in plan.asked["t"]] == [5, 6]
    session.on_answered(77)
    assert session.plan({}) == ((77, 1), {}, {})
    session.on_answered(77)
    plan = session.plan({"a": asked(0, 9), "b": None, "c": None})
    assert (plan.session, list(plan.asked["t"]), plan.forgotten) == ((77, 2), [asked(0, 9)[1]], {"t": [1]})
    assert session.members == {"a": asked(0, 9)}


def test_after_any_doubt_all_is_asked_again():
    session: FetchSession[str] = FetchSession(12)
    session.plan({"a": asked(0, 5), "b": asked(1, 6)})
    session.on_answered(77)
    session.begin_anew()
    plan = session.plan({"b": None})
    assert (plan.session, list(plan.asked["t"]), plan.forgotten) == ((0, 0), [asked(0, 5)[1]], {})
    session.on_answered(0)
    assert session.plan({}).session == (0, 0)


def test_brokers_without_sessions_are_asked_for_all_each_time():
    session: FetchSession[str] = FetchSession(6)
    for _ in range(2):
        assert list(session.plan({"a": asked(0, 5)}).asked["t"]) == [asked(0, 5)[1]]
        session.on_answered(0)
    assert list(session.plan({}).asked["t"]) == [asked(0, 5)[1]]
