"""A visitor of the console without a browser: reads pages, and sends forms as a page of the console sends them."""

import re
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

TOKEN = re.compile(r'name="token" value="([0-9a-f]+)"')
WITHIN_S = 30.0


class Visitor:
    """One browser's cookies and headers.

    Attributes:
        client: sends the requests; it follows no redirects.

    Args:
        url: of the console.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        own = {"origin": f"{parts.scheme}://{parts.netloc}", "sec-fetch-site": "same-origin"}
        self.client = httpx.Client(base_url=url, headers=own, timeout=WITHIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    def get(self, path: str) -> httpx.Response:
        return self.client.get(path)

    def token(self, page: str) -> str:
        """Returns the token of the forms of a page."""
        found = TOKEN.search(self.get(page).text)
        assert found is not None, f"{page} has no form"
        return found[1]

    def post(self, path: str, page: str | None = None, /, **fields: str) -> httpx.Response:
        """Sends a form; its token is that of a page, by default of what is at the same path."""
        return self.client.post(path, data={"token": self.token(page or path), **fields})

    def sign_in(self, cluster: str, user: str, password: str) -> httpx.Response:
        return self.post(f"/clusters/{cluster}/sign-in", user=user, password=password)
