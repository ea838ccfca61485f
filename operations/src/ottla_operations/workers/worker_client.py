"""How commands reach workers, those of Connect and of mirrors: REST over HTTP, its errors as sentences.

`ottla_sdk.worker_access` says how they make themselves known there. Any worker answers for all. Of several URLs the
first at which one can be reached is used; while workers rebalance they refuse some requests, which are tried again
for a while.
"""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.url_redaction import without_login

if TYPE_CHECKING:
    import httpx

    from ottla_sdk.worker_access import WorkerAccess

CONNECT_TIMEOUT_S = 3.0
ANSWER_TIMEOUT_S = 95.0
"""Workers answer within 90 s, if only that they could not carry it out."""
REBALANCE_PATIENCE_S = 20.0
REBALANCE_RETRY_S = 0.5
SHOWN_CHARACTERS_MAX = 300
UNKNOWN_CALLER = 401
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


class Refused(OperationError):
    """A worker refuses.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(OperationError):
    """No worker is at any of the addresses."""


class NotTrusted(OperationError):
    """Workers answer, and TLS lets nobody speak to them."""


class WorkerClient:
    """A connection to the workers.

    Args:
        url: where they listen, with commas between several.
        access_file: the settings by which they know who asks; by default those that the environment names.
        answer_timeout_s: how long each answer may take.

    Raises:
        UsageProblem: one of them is no HTTP URL.
    """

    kind: ClassVar[WorkerKind]

    def __init__(
        self, url: str, access_file: str | None = None, *, answer_timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self._url = url
        self._answer_timeout_s = answer_timeout_s
        self._access_file = access_file
        self._urls = [each.strip().rstrip("/") for each in url.split(",") if each.strip()]
        if not self._urls or any(not each.startswith(("http://", "https://")) for each in self._urls):
            raise UsageProblem(f"{self.kind.option} {url}: write it as http://HOST:PORT or https://HOST:PORT")
        self._client: httpx.Client | None = None
        self._access: WorkerAccess | None = None
        self._greeted: set[str] = set()

    def close(self) -> None:
        """Close the connections; the next question opens them again."""
        if self._client is not None:
            self._client.close()
            self._client = None

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
            Refused: the worker does not carry it out, or does not know who asks.
            Unreachable: no worker can be reached.
            OperationError: a worker does not answer, is none, or is not trusted.
        """
        deadline = time.monotonic() + REBALANCE_PATIENCE_S
        parameters = {key: value for key, value in (query or {}).items() if value is not None}
        while True:
            answer = self._send(method, path, body, parameters)
            if answer.is_success:
                return self._document(answer) if answer.content else None
            self._check_known(answer)
            message = _error_message(answer)
            if answer.status_code != 409 or "rebalance" not in message or time.monotonic() > deadline:
                raise Refused(message, answer.status_code)
            time.sleep(REBALANCE_RETRY_S)

    def _greet(self, url: str) -> None:
        """Ask the worker who it is, before the first request, for whose answer it may be given more time.

        Raises:
            _Silent: nobody there speaks HTTP.
            _Mistrusted: TLS fails.
            Refused: the worker does not know who asks.
        """
        import httpx  # noqa: PLC0415

        assert self._client is not None
        if url in self._greeted:
            return
        try:
            answer = self._client.get(url + "/", timeout=CONNECT_TIMEOUT_S)
        except httpx.TimeoutException:
            raise _Silent(f"no answer within {CONNECT_TIMEOUT_S:.0f} s") from None
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            if (problem := _tls_problem(error)) is not None:
                raise _Mistrusted(problem) from None
            hint = "" if url.startswith("https:") else ", unless it is that of https://"
            raise _Silent(f"what listens there does not speak HTTP{hint}") from None
        self._check_known(answer)
        if answer.is_success and not _has_mark(answer, self.kind.mark):
            raise _Silent(f"an HTTP server answers there, but it is no {self.kind.name}")
        self._greeted.add(url)

    def _send(self, method: str, path: str, body: Any, query: Mapping[str, str]) -> "httpx.Response":
        import httpx  # noqa: PLC0415 - takes a tenth of a second

        if self._client is None:
            self._client = self._opened()
        content = {} if body is None else {"json": body}
        problems, mistrusted = [], False
        for url in list(self._urls):
            try:
                self._greet(url)
                answer = self._client.request(method, url + path, params=query, **content)
            except httpx.ConnectError as error:
                problem = _tls_problem(error)
                mistrusted |= problem is not None
                problems.append(f"{without_login(url)} ({problem or str(error).removeprefix('[Errno 111] ')})")
            except _Mistrusted as found:
                mistrusted = True
                problems.append(f"{without_login(url)} ({found})")
            except _Silent as silent:
                problems.append(f"{without_login(url)} ({silent})")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = str(error) or type(error).__name__
                raise OperationError(f"the worker at {without_login(url)} did not answer: {reason}") from None
            else:
                self._urls = [url]
                return answer
        if mistrusted:
            raise NotTrusted(f"cannot speak to {', '.join(problems)}")
        raise Unreachable(
            f"cannot reach {', '.join(problems)}; start a local cluster with `{self.kind.start}`, "
            f"or name a worker with {self.kind.option}"
        )

    def _opened(self) -> "httpx.Client":
        """Return a client that makes itself known.

        Raises:
            OperationError: the file that says how cannot be used.
        """
        import httpx  # noqa: PLC0415

        from ottla_sdk.worker_access import BadAccess, worker_access  # noqa: PLC0415

        try:
            self._access = worker_access(self._url, os.environ, self._access_file)
            tls = self._access.tls() if any(url.startswith("https:") for url in self._urls) else True
        except BadAccess as problem:
            raise OperationError(str(problem)) from None
        timeout = httpx.Timeout(self._answer_timeout_s, connect=CONNECT_TIMEOUT_S)
        return httpx.Client(timeout=timeout, trust_env=False, verify=tls, headers=self._access.headers)

    def _check_known(self, answer: "httpx.Response") -> None:
        """See that a worker knows who asks.

        Raises:
            Refused: it does not.
        """
        if answer.status_code == UNKNOWN_CALLER:
            assert self._access is not None
            url = without_login(str(answer.url.join("/"))).rstrip("/")
            raise Refused(self._access.why_unknown(url, _challenges(answer)), UNKNOWN_CALLER)

    def _document(self, answer: "httpx.Response") -> Any:
        try:
            return answer.json()
        except ValueError:
            told = _shown(answer.text)
            raise OperationError(f"what answers at {answer.url} is no {self.kind.name}: {told}") from None


class _Silent(Exception):
    """Nothing that speaks HTTP is at an address."""


class _Mistrusted(Exception):
    """TLS does not let the two speak."""


def _tls_problem(error: Exception) -> str | None:
    from ottla_sdk.worker_access import tls_problem  # noqa: PLC0415 - for errors only

    return tls_problem(error)


def _challenges(answer: "httpx.Response") -> str:
    return ", ".join(answer.headers.get_list("www-authenticate"))


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
