"""How commands reach workers, those of Connect and of mirrors: REST over HTTP, its errors as sentences.

Any worker answers for all. Of several URLs the first at which one can be reached is used; while workers rebalance
they refuse some requests, which are tried again for a while.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.errors import CommandError, UsageProblem
from ottla.url_redaction import without_login

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 95.0
"""Workers answer within 90 s, if only that they could not carry it out."""
REBALANCE_PATIENCE_S = 20.0
REBALANCE_RETRY_S = 0.5
SHOWN_CHARACTERS_MAX = 300
VALIDATION_PATH = re.compile(r", which PUT \S+ tells too")
"""What workers tell programs; a person has `ottla connect validate`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """What is said of one kind of workers.

    Attributes:
        name: such as ``Connect worker``.
        option: by which option they are named.
        start: the command that starts one.
        mark: the fields by which the document at `/` is known as such a worker's.
    """

    name: str
    option: str
    start: str
    mark: frozenset[str]


class Refused(CommandError):
    """A worker refuses.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(CommandError):
    """No worker is at any of the addresses."""


class WorkerClient:
    """A connection to the workers.

    Args:
        url: where they listen, with commas between several.

    Raises:
        UsageProblem: one of them is no HTTP URL.
    """

    kind: ClassVar[WorkerKind]

    def __init__(self, url: str) -> None:
        self._urls = [each.strip().rstrip("/") for each in url.split(",") if each.strip()]
        if not self._urls or any(not each.startswith(("http://", "https://")) for each in self._urls):
            raise UsageProblem(f"{self.kind.option} {url}: write it as http://HOST:PORT")
        self._client: httpx.Client | None = None
        self._greeted: set[str] = set()

    def get(self, path: str, **query: str | None) -> Any:
        """Return what is at a path."""
        return self.ask("GET", path, query=query)

    def ask(self, method: str, path: str, body: Any = None, *, query: Mapping[str, str | None] | None = None) -> Any:
        """Return the answer to a request; None if it is empty.

        Args:
            method: HTTP's.
            path: of a resource, with what stands for special characters.
            body: sent as JSON unless it is None.
            query: parameters; those that are None are left out.

        Raises:
            Refused: the worker does not carry it out.
            Unreachable: no worker can be reached.
            CommandError: a worker does not answer, or is none.
        """
        deadline = time.monotonic() + REBALANCE_PATIENCE_S
        parameters = {key: value for key, value in (query or {}).items() if value is not None}
        while True:
            answer = self._send(method, path, body, parameters)
            if answer.is_success:
                return self._document(answer) if answer.content else None
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
        if answer.is_success and not _has_mark(answer, self.kind.mark):
            raise _Silent(f"an HTTP server answers there, but it is no {self.kind.name}")
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
        raise Unreachable(
            f"cannot reach {', '.join(problems)}; start a local cluster with `{self.kind.start}`, "
            f"or name a worker with {self.kind.option}"
        )

    def _document(self, answer: "httpx.Response") -> Any:
        try:
            return answer.json()
        except ValueError:
            told = _shown(answer.text)
            raise CommandError(f"what answers at {answer.url} is no {self.kind.name}: {told}") from None


class _Silent(Exception):
    """Nothing that speaks HTTP is at an address."""


def _has_mark(answer: "httpx.Response", fields: frozenset[str]) -> bool:
    try:
        return fields <= set(answer.json())
    except (ValueError, TypeError):
        return False


def _error_message(answer: "httpx.Response") -> str:
    try:
        return VALIDATION_PATH.sub("", str(answer.json()["message"]))
    except (ValueError, LookupError, TypeError):
        return f"{answer.url} answered {answer.status_code}: {_shown(answer.text)}"


def _shown(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARACTERS_MAX]
