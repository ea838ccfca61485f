"""How `ottla connect` reaches the workers: Kafka Connect's REST API over HTTP, its errors as sentences.

Any worker answers for all. Of several URLs the first at which one can be reached is used; while workers rebalance
they refuse some requests, which are tried again for a while.
"""

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from ottla.errors import CommandError, UsageProblem
from ottla.shown_url import without_login

if TYPE_CHECKING:
    import httpx

URL_DEFAULT = "http://127.0.0.1:8083"
URL_VARIABLE = "OTTLA_CONNECT_URL"
CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 95.0
"""Workers answer within 90 s, if only that they could not carry it out."""
REBALANCE_PATIENCE_S = 20.0
REBALANCE_RETRY_S = 0.5
SHOWN_CHARACTERS_MAX = 300
VALIDATION_PATH = re.compile(r", which PUT \S+ tells too")
"""What workers tell programs; a person has `ottla connect validate`."""

Url = Annotated[
    str,
    typer.Option(
        "--connect-url",
        "--url",
        envvar=URL_VARIABLE,
        metavar="URL[,…]",
        help="Where a worker listens; of several the first that is there.",
    ),
]


class Refused(CommandError):
    """A worker refuses.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ConnectClient:
    """A connection to the workers.

    Args:
        url: where they listen, with commas between several.

    Raises:
        UsageProblem: one of them is no HTTP URL.
    """

    def __init__(self, url: str) -> None:
        self._urls = [each.strip().rstrip("/") for each in url.split(",") if each.strip()]
        if not self._urls or any(not each.startswith(("http://", "https://")) for each in self._urls):
            raise UsageProblem(f"--connect-url {url}: write it as http://HOST:PORT")
        self._client: httpx.Client | None = None
        self._greeted: set[str] = set()

    def get(self, path: str, **query: str | None) -> Any:
        """Return what is at a path."""
        return self.ask("GET", path, query=query)

    def ask(self, method: str, path: str, body: Any = None, *, query: Mapping[str, str | None] | None = None) -> Any:
        """Return the answer to a request; None if it is empty.

        Args:
            method: HTTP's.
            path: such as `connector_path` returns.
            body: sent as JSON unless it is None.
            query: parameters; those that are None are left out.

        Raises:
            Refused: the worker does not carry it out.
            CommandError: no worker can be reached.
        """
        deadline = time.monotonic() + REBALANCE_PATIENCE_S
        parameters = {key: value for key, value in (query or {}).items() if value is not None}
        while True:
            answer = self._send(method, path, body, parameters)
            if answer.is_success:
                return _document(answer) if answer.content else None
            message = _error_message(answer)
            if answer.status_code != 409 or "rebalance" not in message or time.monotonic() > deadline:
                raise Refused(message, answer.status_code)
            time.sleep(REBALANCE_RETRY_S)

    def _greet(self, url: str) -> None:
        """Ask the worker who it is, before the first request, for whose answer it may be given more time.

        Raises:
            _Silent: nobody there speaks HTTP.
        """
        import httpx  # noqa: PLC0415

        assert self._client is not None
        if url in self._greeted:
            return
        try:
            answer = self._client.get(url + "/", timeout=CONNECT_TIMEOUT_S)
        except httpx.TimeoutException:
            raise _Silent(f"no answer within {CONNECT_TIMEOUT_S:.0f} s") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            raise _Silent("what listens there does not speak HTTP") from None
        if answer.is_success and not _is_worker(answer):
            raise _Silent("an HTTP server answers there, but it is no Connect worker")
        self._greeted.add(url)

    def _send(self, method: str, path: str, body: Any, query: Mapping[str, str]) -> "httpx.Response":
        import httpx  # noqa: PLC0415 - takes a tenth of a second

        if self._client is None:
            self._client = httpx.Client(
                timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S), trust_env=False
            )
        content = {} if body is None else {"json": body}
        problems = []
        for url in list(self._urls):
            try:
                self._greet(url)
                answer = self._client.request(method, url + path, params=query, **content)
            except httpx.ConnectError as error:
                problems.append(f"{without_login(url)} ({str(error).removeprefix('[Errno 111] ')})")
            except _Silent as silent:
                problems.append(f"{without_login(url)} ({silent})")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = str(error) or type(error).__name__
                raise CommandError(f"the worker at {without_login(url)} did not answer: {reason}") from None
            else:
                self._urls = [url]
                return answer
        raise CommandError(
            f"cannot reach {', '.join(problems)}; start a local cluster with `ottla up --connect 1`, "
            "or name a worker with --connect-url"
        )


class _Silent(Exception):
    """Nothing that speaks HTTP is at an address."""


def connector_path(name: str, *below: str) -> str:
    """Return the path of a connector, or of something below it."""
    return "/".join(["/connectors", quote(name, safe=""), *below])


def plugin_path(plugin: str, *below: str) -> str:
    """Return the path of a plugin class, or of something below it."""
    return "/".join(["/connector-plugins", quote(plugin, safe=""), *below])


def existing_names(client: ConnectClient, names: Sequence[str]) -> list[str]:
    """Return the named connectors, or all if none is named."""
    return list(names) or sorted(client.get("/connectors"))


def _is_worker(answer: "httpx.Response") -> bool:
    try:
        return "version" in answer.json()
    except (ValueError, TypeError):
        return False


def _document(answer: "httpx.Response") -> Any:
    try:
        return answer.json()
    except ValueError:
        raise CommandError(f"what answers at {answer.url} is no Connect worker: {_shown(answer.text)}") from None


def _error_message(answer: "httpx.Response") -> str:
    try:
        return VALIDATION_PATH.sub("", str(answer.json()["message"]))
    except (ValueError, LookupError, TypeError):
        return f"{answer.url} answered {answer.status_code}: {_shown(answer.text)}"


def _shown(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARACTERS_MAX]
