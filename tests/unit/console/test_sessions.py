"""Who is signed in for how long."""

from itertools import count

from ottla_console.access.sessions import Sessions
from ottla_console.clusters.credentials import Credentials, RoleLogin
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
