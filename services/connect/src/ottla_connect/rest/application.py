"""The REST API as one application: Kafka Connect's resources over a `Herder`."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from ottla_connect.herder.api import Herder
from ottla_connect.herder.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER
from ottla_connect.rest.options import RestOptions
from ottla_connect.rest.resources import (
    connector_state,
    connectors,
    fencing,
    loggers,
    logs,
    offsets,
    plugins,
    root,
    tasks,
    topics,
)
from ottla_core.rest.authentication import Access
from ottla_core.rest.common_layers import surround
from ottla_core.rest.forwarding import Forwarder

DESCRIPTION = "Runs connectors: their settings, states, tasks and offsets. The resources are Kafka Connect's."
RESOURCES = (root, connectors, connector_state, tasks, fencing, offsets, topics, logs, plugins, loggers)


def create_application(
    herder: Herder,
    *,
    own_url: str,
    options: RestOptions | None = None,
    forwarding_tls: ssl.SSLContext | None = None,
    access: Access | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        herder: what answers.
        own_url: the URL under which other workers reach this one.
        options: the worker's settings that concern it.
        forwarding_tls: how other workers with an https URL are trusted.
        access: who may use it; None: whoever reaches it.
    """
    options = options or RestOptions()
    forwarder = Forwarder(
        own_url,
        forwarding_tls,
        passed_headers=(SIGNATURE_HEADER, ALGORITHM_HEADER),
        signer=None if access is None else access.signer,
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await forwarder.close()

    app = _Application(
        title="Ottla Connect",
        description=DESCRIPTION,
        version=version("ottla-connect"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.herder = herder
    app.state.options = options
    app.state.routes = [route for resource in RESOURCES for route in resource.router.routes]
    for resource in RESOURCES:
        app.include_router(resource.router)
    surround(
        app,
        forwarder,
        allowed_origins=options.allowed_origins,
        allowed_methods=options.allowed_methods,
        access=access,
        forward_patience_s=options.forward_patience_s,
        request_timeout_s=options.request_timeout_s,
    )
    return app


class _Application(FastAPI):
    """FastAPI, whose description of itself says how bad parameters are answered here."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            document = super().openapi()
            for operation in (each for methods in document["paths"].values() for each in methods.values()):
                operation["responses"].pop("422", None)
            for model in ("HTTPValidationError", "ValidationError"):
                document["components"]["schemas"].pop(model, None)
        assert self.openapi_schema is not None
        return self.openapi_schema
