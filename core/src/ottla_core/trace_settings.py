"""Where a process sends its spans, and how many traces it begins: settings of the processes that make spans."""

import re
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from ottla_core.config import SECRET, CommaSeparated, ServiceConfig

TRACES_PATH = "/v1/traces"
"""Where a receiver of OTLP over HTTP takes spans, unless its URL names a path of its own."""
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class TraceSettings(ServiceConfig):
    """Traces of a process; off without an endpoint."""

    traces_otlp_endpoint: str = Field(
        "",
        alias="traces.otlp.endpoint",
        description="URL to which spans are sent by OTLP over HTTP (protobuf), such as http://collector:4318; "
        "without a path it is that of /v1/traces. Empty: no traces.",
    )
    traces_otlp_headers: Annotated[CommaSeparated, SECRET] = Field(
        (),
        alias="traces.otlp.headers",
        description="Headers of such requests, for authentication for example: NAME=VALUE, separated by commas, "
        "values percent-encoded where they hold commas or blanks.",
    )
    traces_sample_ratio: float = Field(
        0.01,
        alias="traces.sample.ratio",
        ge=0,
        le=1,
        description="Share of the traces that begin here which are recorded, from 0 to 1. What belongs to a trace "
        "that began elsewhere follows the decision made there.",
    )

    @field_validator("traces_otlp_endpoint")
    @classmethod
    def _check_endpoint(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("write it as http://HOST:PORT or https://HOST:PORT")
        if "@" in parts.netloc:
            raise ValueError("it must hold no login, as it is shown to clients; write that into traces.otlp.headers")
        return value

    @field_validator("traces_otlp_headers")
    @classmethod
    def _check_headers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for number, header in enumerate(value, start=1):
            name, equals, _ = header.partition("=")
            if not equals or not HEADER_NAME.fullmatch(name.strip()):
                # The header itself may be secret.
                raise ValueError(f"header {number} is not written as NAME=VALUE")
        return value

    @property
    def makes_traces(self) -> bool:
        """Whether spans are made."""
        return bool(self.traces_otlp_endpoint)

    @property
    def traces_url(self) -> str:
        """The URL to which spans are posted."""
        has_path = urlsplit(self.traces_otlp_endpoint).path not in ("", "/")
        return self.traces_otlp_endpoint if has_path else self.traces_otlp_endpoint.rstrip("/") + TRACES_PATH

    @property
    def traces_headers(self) -> Mapping[str, str]:
        """The headers of requests to it, by name."""
        pairs = (header.partition("=") for header in self.traces_otlp_headers)
        return {name.strip(): unquote(value.strip()) for name, _, value in pairs}
