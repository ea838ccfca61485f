"""Who is signed in for how long."""

from itertools import count

from ottla_console.access.sessions import Sessions
from ottla_console.clusters.credentials import Credentials, Login, RoleLogin
from ottla_console.config.roles import Role

ANN, BOB = Credentials("ann", "a"), Credentials("bob", "b")


def sessions(sessions_max: int = 10) -> Sessions:
    drawn = count(1)
    return Sessions(sessions_max=sessions_max, idle_s=60, lifetime_s=600, draw_id=lambda: f"s{next(drawn)}")


def test_a_session_ends_when_it_is_idle_and_in_any_case_after_its_lifetime() -> None:
    known = sessions()
    first = known.sign_in(None, {"prod": ANN}, 0.0)
    assert known.find(first, 60.0) is not None
    assert known.find(first, 121.0) is None
    assert len(known) == 0
    second = known.sign_in(None, {"prod": ANN}, 0.0)
    for at_s in range(0, 601, 50):
        assert known.find(second, float(at_s)) is not None
    assert known.find(second, 601.0) is None


def test_each_sign_in_draws_a_new_id_and_the_former_one_is_worth_nothing() -> None:
    known = sessions()
    planted = "planted"
    first = known.sign_in(planted, {"prod": ANN}, 0.0)
    assert first != planted
    second = known.sign_in(first, {"test": BOB}, 1.0)
    assert known.find(first, 1.0) is None
    found = known.find(second, 1.0)
    assert found is not None
    assert found.credentials == {"prod": ANN, "test": BOB}


def test_to_sign_in_elsewhere_makes_no_former_sign_in_last_longer() -> None:
    known = sessions()
    session = known.sign_in(None, {"prod": RoleLogin("ann", Role.ADMIN)}, 0.0)
    for at_s in range(50, 601, 50):
        session = known.sign_in(session, {"test": BOB}, float(at_s))
    assert known.find(session, 601.0) is None


def test_who_signs_in_anew_to_everything_has_the_whole_lifetime() -> None:
    known = sessions()
    session = known.sign_in(None, {"prod": ANN}, 0.0)
    for at_s in range(50, 601, 50):
        session = known.sign_in(session, {"prod": ANN}, float(at_s))
    assert known.find(session, 601.0) is not None


def test_of_too_many_the_one_that_was_not_used_for_longest_ends() -> None:
    known = sessions(sessions_max=2)
    first, second = (known.sign_in(None, {"prod": ANN}, 0.0) for _ in range(2))
    known.find(first, 1.0)
    third = known.sign_in(None, {"prod": ANN}, 2.0)
    assert known.find(second, 2.0) is None
    assert known.find(first, 2.0) is not None
    assert known.find(third, 2.0) is not None


def test_who_signs_out_is_gone_and_passwords_are_shown_nowhere() -> None:
    known = sessions()
    signed_in = known.sign_in(None, {"prod": Credentials("ann", "her secret")}, 0.0)
    ended = known.sign_out(signed_in)
    assert known.find(signed_in, 0.0) is None
    assert "her secret" not in repr(ended)


def test_to_ask_whether_a_session_goes_on_does_not_use_it() -> None:
    known = sessions()
    first = known.sign_in(None, {"prod": ANN}, 0.0)
    for at_s in range(0, 61, 20):
        assert known.goes_on(first, float(at_s))
    assert not known.goes_on(first, 61.0)
    assert not known.goes_on("another", 0.0)
    assert not known.goes_on(None, 0.0)


def ends_of(known: Sessions) -> list[dict[str, Login]]:
    """What is told of sessions that end, in order."""
    ended: list[dict[str, Login]] = []
    known.on_end = lambda logins: ended.append(dict(logins)) if logins else None
    return ended


def test_what_a_session_was_signed_in_with_is_given_back_whatever_ends_it() -> None:
    known = sessions(sessions_max=2)
    ended = ends_of(known)
    idle = known.sign_in(None, {"prod": ANN}, 0.0)
    assert known.find(idle, 61.0) is None
    assert ended == [{"prod": ANN}], "idle"
    pushed_out = known.sign_in(None, {"prod": BOB}, 100.0)
    others = [known.sign_in(None, {"prod": ANN, "test": BOB}, 101.0) for _ in range(2)]
    assert known.find(pushed_out, 101.0) is None
    assert ended[1:] == [{"prod": BOB}], "pushed out"
    known.sign_out(others[0])
    assert ended[2:] == [{"prod": ANN, "test": BOB}], "signed out"


def test_a_sign_in_that_takes_another_ones_place_gives_that_one_back_and_keeps_the_others() -> None:
    known = sessions()
    ended = ends_of(known)
    first = known.sign_in(None, {"prod": ANN, "test": BOB}, 0.0)
    second = known.sign_in(first, {"prod": BOB}, 1.0)
    assert ended == [{"prod": ANN}]
    known.sign_out(second)
    assert ended[1:] == [{"prod": BOB, "test": BOB}]


def test_sessions_that_nobody_asks_for_any_more_end_too() -> None:
    known = sessions()
    ended = ends_of(known)
    first = known.sign_in(None, {"prod": ANN}, 0.0)
    second = known.sign_in(None, {"prod": BOB}, 0.0)
    known.find(first, 50.0)
    known.end_over(70.0)
    assert (ended, len(known)) == ([{"prod": BOB}], 1)
    assert known.has_login("prod", ANN)
    assert not known.has_login("prod", BOB)
    assert not known.has_login("test", ANN)
    assert known.find(second, 70.0) is None
