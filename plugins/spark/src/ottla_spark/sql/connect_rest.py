"""How the prompt reaches Connect's workers: pipelines are connectors, made and asked for over REST.

`ottla_sdk.worker_access` says how the prompt makes itself known there. Of several URLs the first at which a worker
can be reached is used. While workers rebalance they refuse some requests, which are tried again for a while.
"""

import os
import time
from typing import Any
from urllib.parse import quote

import httpx

from ottla_sdk.worker_access import BadAccess, WorkerAccess, tls_problem, worker_access
from ottla_spark.sql.sql_errors import SqlProblem, UsageProblem

CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 4.0
"""For questions, which workers answer at once."""
CHANGE_TIMEOUT_S = 95.0
"""For changes: workers answer within 90 s, if only that they could not carry it out."""
REBALANCE_PATIENCE_S = 20.0
REBALANCE_RETRY_S = 0.5
SHOWN_CHARACTERS_MAX = 300
NOT_FOUND = 404
CONFLICT = 409
UNKNOWN_CALLER = 401


class Refused(SqlProblem):
    """A worker does not do what was asked.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ConnectRest:
    """A connection to the workers, which is opened when it is first needed.

    Args:
        url: where they listen, with commas between several.

    Raises:
        SqlProblem: one of them is no HTTP URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._urls = [each.strip().rstrip("/") for each in url.split(",") if each.strip()]
        if not self._urls or any(not each.startswith(("http://", "https://")) for each in self._urls):
            raise UsageProblem(f"--connect-url {url}: write it as http://HOST:PORT or https://HOST:PORT")
        self._client: httpx.Client | None = None
        self._access: WorkerAccess | None = None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to a request; None if it is empty.

        Raises:
            Refused: the worker does not carry it out.
            SqlProblem: no worker can be reached.
        """
        deadline = time.monotonic() + REBALANCE_PATIENCE_S
        while True:
            answer = self._send(method, path, body)
            if answer.is_success:
                return _document(answer) if answer.content else None
            if answer.status_code == UNKNOWN_CALLER and self._access is not None:
                challenges = ", ".join(answer.headers.get_list("www-authenticate"))
                raise Refused(self._access.why_unknown(self._urls[0], challenges), UNKNOWN_CALLER)
            message = _error_message(answer)
            if answer.status_code != CONFLICT or "rebalance" not in message or time.monotonic() > deadline:
                raise Refused(message, answer.status_code)
            time.sleep(REBALANCE_RETRY_S)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def _send(self, method: str, path: str, body: Any) -> httpx.Response:
        if self._client is None:
            self._client = self._opened()
        answer_s = READ_TIMEOUT_S if method == "GET" else CHANGE_TIMEOUT_S
        timeout = httpx.Timeout(answer_s, connect=CONNECT_TIMEOUT_S)
        failures = []
        for url in list(self._urls):
            try:
                answer = (
                    self._client.request(method, url + path, json=body, timeout=timeout)
                    if body is not None
                    else self._client.request(method, url + path, timeout=timeout)
                )
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failures.append(f"{url} ({tls_problem(error) or error})")
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                reason = tls_problem(error) or str(error) or type(error).__name__
                raise SqlProblem(f"the Connect worker at {url} did not answer: {reason}") from None
            else:
                self._urls = [url]
                return answer
        raise SqlProblem(
            f"cannot reach a Connect worker at {', '.join(failures)}; pipelines run there: start one with "
            "`ottla up --connect 1`, or name one with --connect-url"
        )

    def _opened(self) -> httpx.Client:
        """Return a client that makes itself known.

        Raises:
            SqlProblem: the file that says how cannot be used.
        """
        try:
            self._access = worker_access(self.url, os.environ)
            tls = self._access.tls() if any(url.startswith("https:") for url in self._urls) else True
        except BadAccess as problem:
            raise SqlProblem(str(problem)) from None
        return httpx.Client(trust_env=False, verify=tls, headers=self._access.headers)


def connector_path(name: str, *below: str) -> str:
    """Return the path of a connector, or of something below it."""
    return "/".join(["/connectors", quote(name, safe=""), *below])


def _document(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise SqlProblem(f"what answers at {answer.url} is no Connect worker: {_shown(answer.text)}") from None


def _error_message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, LookupError, TypeError):
        return f"what answers at {answer.url.copy_with(raw_path=b'/')} is no Connect worker ({answer.status_code})"


def _shown(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARACTERS_MAX]
