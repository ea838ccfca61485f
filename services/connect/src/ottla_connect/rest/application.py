"""The REST API as one application: Kafka Connect's resources over a `Herder`."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from ottla_connect.herder.api import Herder
from ottla_connect.rest.options import RestOptions
from ottla_connect.rest.resources import (
    connector_state,
    connectors,
    loggers,
    logs,
    offsets,
    plugins,
    root,
    tasks,
    topics,
)
from ottla_connect.rest.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER
from ottla_core.rest.docs_page import docs_page
from ottla_core.rest.error_answers import answer_http_exception, answer_request_error, error_answer
from ottla_core.rest.errors import Elsewhere, RequestError
from ottla_core.rest.forwarding import Forwarder, ForwardRetries
from ottla_core.rest.path_segments import EncodedPaths
from ottla_core.rest.request_guard import RequestGuard

DESCRIPTION = "Runs connectors: their settings, states, tasks and offsets. The resources are Kafka Connect's."
CORS_METHODS_DEFAULT = ("GET", "POST", "HEAD")
RESOURCES = (root, connectors, connector_state, tasks, offsets, topics, logs, plugins, loggers)


def create_application(
    herder: Herder,
    *,
    own_url: str,
    options: RestOptions | None = None,
    forwarding_tls: ssl.SSLContext | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        herder: what answers.
        own_url: the URL under which other workers reach this one.
        options: the worker's settings that concern it.
        forwarding_tls: how other workers with an https URL are trusted.
    """
    options = options or RestOptions()
    forwarder = Forwarder(own_url, forwarding_tls, passed_headers=(SIGNATURE_HEADER, ALGORITHM_HEADER))

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

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))

    async def forward(request: Request, elsewhere: Exception) -> Response:
        assert isinstance(elsewhere, Elsewhere)
        try:
            return await forwarder.forward(request, elsewhere)
        except RequestError as error:
            return await answer_request_error(request, error)

    app.add_exception_handler(Elsewhere, forward)
    app.add_exception_handler(RequestError, answer_request_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    app.add_exception_handler(RequestValidationError, _answer_bad_parameters)
    _add_middleware(app, options)
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


def _add_middleware(app: FastAPI, options: RestOptions) -> None:
    """Put the layers around the application; the one that is added last is the outermost."""
    app.add_middleware(EncodedPaths)
    app.add_middleware(ForwardRetries, patience_s=options.forward_patience_s)
    if options.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=options.allowed_origins,
            allow_methods=options.allowed_methods or CORS_METHODS_DEFAULT,
            allow_headers=["*"],
        )
    app.add_middleware(RequestGuard, timeout_s=options.request_timeout_s)


async def _answer_bad_parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    reasons = [f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()]
    return error_answer(400, "; ".join(reasons))
