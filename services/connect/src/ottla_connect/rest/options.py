"""What the resources know of their worker: its herder, and the settings that concern them."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request
from pydantic import BeforeValidator

from ottla_connect.config import WorkerConfig
from ottla_connect.herder.api import Herder
from ottla_core.rest.forwarding import PATIENCE_S
from ottla_core.rest.request_guard import REQUEST_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """Settings of the worker that concern the REST API.

    Attributes:
        allowed_origins: sites whose pages may use it, or ``*``; empty for none.
        allowed_methods: the methods that those may use; empty for GET, POST and HEAD.
        topic_tracking: whether the topics that connectors use are recorded.
        topic_tracking_reset: whether users may reset them.
        request_timeout_s: how long a request may take.
        forward_patience_s: how long a request waits for a successor of the worker that has to answer it.
    """

    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = ()
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    request_timeout_s: float = REQUEST_TIMEOUT_S
    forward_patience_s: float = PATIENCE_S

    @classmethod
    def of(cls, config: WorkerConfig) -> Self:
        """Return those of a worker's settings."""
        return cls(
            allowed_origins=config.allowed_origins,
            allowed_methods=config.access_control_allow_methods,
            topic_tracking=config.topic_tracking_enable,
            topic_tracking_reset=config.topic_tracking_allow_reset,
        )


def _herder(request: Request) -> Herder:
    herder: Herder = request.app.state.herder
    return herder


def _options(request: Request) -> RestOptions:
    options: RestOptions = request.app.state.options
    return options


def _is_true(text: object) -> object:
    """Read a flag as Java's Boolean does: whatever is not ``true`` is false."""
    return text.strip().lower() == "true" if isinstance(text, str) else text


TheHerder = Annotated[Herder, Depends(_herder)]
TheOptions = Annotated[RestOptions, Depends(_options)]
Flag = Annotated[bool, BeforeValidator(_is_true)]
