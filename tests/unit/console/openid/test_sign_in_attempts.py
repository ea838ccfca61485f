"""Which callbacks find the attempt that they are for."""

from itertools import count

from ottla_console.openid.sign_in_attempts import ATTEMPTS_MAX, LASTS_S, Attempt, SignInAttempts


def attempts() -> SignInAttempts:
    drawn = count()
    return SignInAttempts(lambda: f"drawn {next(drawn)}")


def begun(known: SignInAttempts, browser: str | None = None) -> Attempt:
    return known.begin(browser, cluster="prod", then="/clusters/prod", now_s=0.0)


def test_an_attempt_is_good_once_in_the_browser_that_began_it() -> None:
    known = attempts()
    first = begun(known)
    assert len({first.state, first.nonce, first.verifier, first.browser}) == 4
    assert known.take(first.state, None, 1.0) is None
    assert known.take(first.state, "another", 1.0) is None
    assert known.take("another", first.browser, 1.0) is None
    assert known.take(first.state, first.browser, 1.0) is first
    assert known.take(first.state, first.browser, 1.0) is None


def test_an_attempt_ends_after_ten_minutes() -> None:
    known = attempts()
    first = begun(known)
    assert known.take(first.state, first.browser, LASTS_S + 1) is None


def test_two_pages_of_a_browser_may_sign_in_at_a_time_but_a_secret_that_nobody_drew_is_not_taken() -> None:
    known = attempts()
    first = begun(known)
    second = begun(known, first.browser)
    assert second.browser == first.browser
    assert begun(known, "planted").browser != "planted"
    assert known.take(first.state, first.browser, 1.0) is first
    assert known.take(second.state, second.browser, 1.0) is second


def test_attempts_are_bounded() -> None:
    known = attempts()
    first = begun(known)
    for _ in range(ATTEMPTS_MAX):
        begun(known)
    assert len(known) == ATTEMPTS_MAX
    assert known.take(first.state, first.browser, 1.0) is None
