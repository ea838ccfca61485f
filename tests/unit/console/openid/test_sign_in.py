"""What a provider that does not answer costs the console."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla_console.config.openid_settings import OpenIdSettings
from ottla_console.openid import provider
from ottla_console.openid.provider import OpenIdProvider
from ottla_console.openid.sign_in import QUESTIONS_MAX, OpenIdSignIn
from ottla_operations.errors import OperationError

SETTINGS = OpenIdSettings(issuer="http://127.0.0.1:1", client_id="console", redirect_uri="http://console/callback")


class HeldThreads:
    """Threads whose answers come when the test says so."""

    def __init__(self) -> None:
        self.under_way = 0
        self.go_on = asyncio.Event()

    def run(self, call: Callable[[], Any], *, within_s: float, subject: str) -> Awaitable[Any]:
        return self._run()

    async def _run(self) -> Any:
        self.under_way += 1
        await self.go_on.wait()
        return "https://provider.example/sign-in"


def test_browsers_that_begin_to_sign_in_take_few_of_the_threads_for_clusters() -> None:
    async def scenario() -> None:
        held = HeldThreads()
        openid = OpenIdSignIn(SETTINGS, held)
        begun = [asyncio.create_task(openid.begin(None, cluster="prod", then="/")) for _ in range(QUESTIONS_MAX + 20)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert held.under_way == QUESTIONS_MAX
        held.go_on.set()
        await asyncio.gather(*begun)
        assert held.under_way == QUESTIONS_MAX + 20
        openid.close()

    asyncio.run(scenario())


def test_a_thread_does_not_wait_without_end_for_others_that_ask_for_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provider, "ANSWER_WITHIN_S", 0.05)
    asked, go_on = threading.Event(), threading.Event()
    known = OpenIdProvider(SETTINGS)

    def never(*_: object) -> tuple[int, bytes]:
        asked.set()
        go_on.wait(30)
        return 500, b""

    monkeypatch.setattr(known, "_ask", never)

    def ask() -> None:
        with pytest.raises(OperationError):
            known.endpoints()

    first = threading.Thread(target=ask)
    first.start()
    try:
        assert asked.wait(30)
        second = threading.Thread(target=ask, daemon=True)
        second.start()
        second.join(10)
        assert not second.is_alive()
    finally:
        go_on.set()
        first.join(30)
        known.close()
