"""Requests to the registry: several addresses, repetitions with growing pauses, errors as the SDK's.

| the registry | raised |
|---|---|
| cannot be reached, is busy (429), fails (5xx) | `RetriableError`, once the repetitions are used up |
| is not what answers: a proxy's page, or half an answer | the same |
| does not know us, or not allow it (401, 403) | `FatalError` |
| answers with any other error | `RegistryRefusal`, a `DataError` that carries the registry's error code |
"""

import json
import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from ottla_schema_registry.registry.config import RegistryConfig
from ottla_sdk import DataError, FatalError, RetriableError
from ottla_sdk.file_policy import permitted_path

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_MAY_PASS = frozenset({408, 425, 429, *range(500, 600)})
_ANSWER_BYTES_MAX = 64 * 1024 * 1024

_logger = logging.getLogger(__name__)


class RegistryRefusal(DataError):
    """The registry has refused a request.

    Attributes:
        status: the status of HTTP.
        code: the registry's own error code, such as 40403 for an unknown schema.
    """

    def __init__(self, status: int, code: int, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(f"the schema registry refuses: {message} (error {code})")


class HttpTransport:
    """Sends requests to one of the addresses.

    Args:
        config: addresses, credentials, timeouts.
        headers: what else goes with each request.
        sleep: waits so many seconds; tests have another one.
    """

    def __init__(
        self, config: RegistryConfig, headers: Mapping[str, str], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._config = config
        self._sleep = sleep
        self._addresses = [each.rstrip("/") for each in config.urls]
        timeout = httpx.Timeout(config.read_timeout_ms / 1000, connect=config.connect_timeout_ms / 1000)
        self._client = httpx.Client(
            headers={"Accept": f"{_CONTENT_TYPE}, application/json", **headers, **_authorization(config)},
            auth=_basic_auth(config),
            timeout=timeout,
            verify=_tls(config),
            proxy=config.proxy,
            trust_env=False,
        )

    def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """Return the answer, parsed.

        Args:
            method: GET or POST.
            path: from the address on; with its parts quoted.
            query: parameters.
            body: what goes along, as JSON.

        Raises:
            RetriableError, FatalError, RegistryRefusal: as the file's head says.
        """
        problem = ""
        for attempt in range(self._config.retries_max + 1):
            if attempt:
                self._sleep(self._pause_s(attempt))
            for address in list(self._addresses):
                try:
                    return self._answer(self._send(method, address + path, query, body))
                except (httpx.TransportError, httpx.DecodingError, RetriableError) as error:
                    problem = str(error) or type(error).__name__
                    _logger.warning("The schema registry at %s: %s", _without_credentials(address), problem)
                    # The next request begins with another address.
                    self._addresses.append(self._addresses.pop(0))
        raise RetriableError(f"the schema registry cannot be reached: {problem}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, method: str, url: str, query: Mapping[str, str] | None, body: Any) -> httpx.Response:
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": _CONTENT_TYPE}
        with self._client.stream(method, url, params=query, content=content, headers=headers) as response:
            received = bytearray()
            for part in response.iter_bytes():
                received += part
                if len(received) > _ANSWER_BYTES_MAX:
                    raise FatalError(f"the schema registry answers with more than {_ANSWER_BYTES_MAX} bytes")
            return httpx.Response(response.status_code, content=bytes(received))

    def _answer(self, response: httpx.Response) -> Any:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.is_success:
            if answer is None:
                raise FatalError("what answers at schema.registry.url is no schema registry: no JSON came")
            return answer
        described = answer if isinstance(answer, dict) else {}
        message = str(described.get("message") or response.reason_phrase)
        if response.status_code in _MAY_PASS:
            raise RetriableError(f"{response.status_code} {message}")
        if response.status_code in (401, 403):
            raise FatalError(f"the schema registry does not allow it: {message}")
        if not isinstance(answer, dict):
            # A proxy's word, such as that it knows no server behind it, says nothing of the schema.
            raise RetriableError(f"{response.status_code} {message}, not from a schema registry")
        code = described.get("error_code")
        raise RegistryRefusal(response.status_code, code if isinstance(code, int) else response.status_code, message)

    def _pause_s(self, attempt: int) -> float:
        longest_ms = min(self._config.retry_wait_ms * 2 ** (attempt - 1), self._config.retry_wait_max_ms)
        return random.uniform(0, longest_ms) / 1000  # noqa: S311 - spreads requests, hides nothing


def _authorization(config: RegistryConfig) -> Mapping[str, str]:
    if config.bearer_source is None or config.bearer_token is None:
        return {}
    return {"Authorization": f"Bearer {config.bearer_token.get_secret_value()}"}


def _basic_auth(config: RegistryConfig) -> httpx.BasicAuth | None:
    if config.basic_auth_source != "USER_INFO" or config.user_info is None:
        return None  # httpx takes them from the address.
    user, _, password = config.user_info.get_secret_value().partition(":")
    return httpx.BasicAuth(user, password)


def _tls(config: RegistryConfig) -> ssl.SSLContext | bool:
    if all(urlsplit(each).scheme == "http" for each in config.urls):
        return False
    try:
        context = httpx.create_ssl_context()
        if config.ca_location is not None:
            context = ssl.create_default_context(cafile=permitted_path(config.ca_location))
        if config.certificate_location is not None:
            password = config.key_password.get_secret_value() if config.key_password is not None else None
            key = None if config.key_location is None else permitted_path(config.key_location)
            context.load_cert_chain(permitted_path(config.certificate_location), key, password)
    except OSError as error:
        raise FatalError(
            f"schema.registry.ssl: the certificates cannot be loaded, PEM files are needed: {error}"
        ) from None
    context.check_hostname = config.endpoint_identification == "https"
    return context


def _without_credentials(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
