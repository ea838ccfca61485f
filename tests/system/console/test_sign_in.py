"""Signing in with a cluster's own users: their connections, their rights."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.clusters.secured_listeners import PASSWORD
from tests.support.console.browser import new_page, serious_barriers
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.system.console.conftest import GuardedConsole

pytestmark = pytest.mark.slow


@pytest.fixture
def page(browser: Browser, guarded_console: GuardedConsole) -> Iterator[Page]:
    with new_page(browser, guarded_console.url) as opened:
        yield opened


def sign_in(page: Page, password: str) -> None:
    page.get_by_label("User").fill("ann")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_a_user_signs_in_comes_to_the_page_that_was_asked_for_and_signs_out(page: Page) -> None:
    page.goto("/clusters/guarded/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to guarded")
    assert serious_barriers(page) == []
    sign_in(page, PASSWORD)
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    (cookie,) = [each for each in page.context.cookies() if each["name"] == "ottla-console"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    page.get_by_role("button", name="Sign out").click()
    page.context.add_cookies([cookie])  # as somebody who has stolen it
    page.goto("/clusters/guarded/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to guarded")


def test_a_wrong_password_is_told_and_opens_nothing(page: Page) -> None:
    page.goto("/clusters/guarded/topics")
    sign_in(page, "wrong")
    expect(page.get_by_role("alert")).to_contain_text("lets this client not in")
    page.goto("/clusters/guarded")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to guarded")


def test_guessing_is_slowed_and_the_right_password_works_after_the_wait(guarded_console: GuardedConsole) -> None:
    with Visitor(guarded_console.url) as guesser:
        answers = (guesser.sign_in("guarded", "owner", "wrong") for _ in range(20))
        told = next(answer for answer in answers if answer.status_code != 401)
        assert told.status_code == 429
        assert f"try again in {told.headers['retry-after']} s" in told.text
        assert guesser.get("/clusters/guarded/topics").status_code == 303
        eventually(lambda: guesser.sign_in("guarded", "owner", PASSWORD).status_code == 303, "the wait is over")
        assert guesser.get("/clusters/guarded/topics").status_code == 200
