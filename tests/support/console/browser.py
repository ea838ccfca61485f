"""Debian's Chromium, driven by Playwright's package; and what a test looks for on every page.

A page fails the test at its end if its scripts failed or the content security policy stopped something.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

SCREENSHOTS = "OTTLA_TEST_SCREENSHOTS"
"""A folder in which tests leave pictures of the views."""
DEADLINE_MS = 15_000
"""Of whatever a page is waited for; longer than the 5 s after which lists renew themselves."""
SERIOUS = ("serious", "critical")
NO_FAULTS = ("htmx:responseError", "htmx:sendAbort", "htmx:afterRequest")
"""What htmx tells of a status of an answer, and of a request that made way for a newer one."""
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs a browser without a window."""
    expect.set_options(timeout=DEADLINE_MS)
    with sync_playwright() as playwright:
        # In a container root has no name space of its own for the sandbox.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def new_page(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Opens a page in a profile of its own; addresses begin below `url`."""
    context: BrowserContext = browser.new_context(base_url=url, viewport=options.pop("viewport", WIDE), **options)
    context.set_default_timeout(DEADLINE_MS)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if is_a_fault(message.text) else None)
    try:
        yield page
    finally:
        context.close()
    assert not problems, problems


def is_a_fault(text: str) -> bool:
    """Whether a line of the browser's console tells of a page's fault."""
    return "Content Security Policy" in text or ("htmx:" in text and not any(each in text for each in NO_FAULTS))


def serious_barriers(page: Page) -> list[str]:
    """What keeps people with assistive technology from using a page, by axe."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {node['target']}" for each in found if each["impact"] in SERIOUS for node in each["nodes"]
    ]


def leave_picture(page: Page, name: str) -> None:
    """Leaves a picture of the page where somebody has asked for pictures."""
    if folder := os.environ.get(SCREENSHOTS):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png")
