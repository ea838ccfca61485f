"""The REST API as one application over a `MirrorWorker`."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

import ottla_mirror
from ottla_core.rest.docs_page import docs_page
from ottla_core.rest.error_answers import answer_http_exception, answer_request_error, error_answer
from ottla_core.rest.errors import Elsewhere, RequestError
from ottla_core.rest.forwarding import Forwarder, ForwardRetries
from ottla_core.rest.path_segments import EncodedPaths
from ottla_core.rest.request_guard import RequestGuard
from ottla_mirror.rest import flows
from ottla_mirror.rest.gathering import Gathering
from ottla_mirror.workers.mirror_worker import MirrorWorker

DESCRIPTION = "Mirrors topics and groups from one Kafka cluster to another: flows, how they fare, what steers them."
CORS_METHODS_DEFAULT = ("GET", "POST", "HEAD")


def create_application(worker: MirrorWorker, tls: ssl.SSLContext | None = None) -> FastAPI:
    """Return the application.

    Args:
        worker: what answers.
        tls: how other workers with an https URL are trusted.
    """
    forwarder, gathering = Forwarder(worker.url, tls), Gathering(worker.url, tls)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await forwarder.close()
        await gathering.close()

    app = FastAPI(
        title="Ottla Mirror",
        description=DESCRIPTION,
        version=ottla_mirror.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.worker = worker
    app.state.gathering = gathering
    app.state.routes = list(flows.router.routes)
    app.include_router(flows.router)

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
    _add_middleware(app, worker)
    return app


def _add_middleware(app: FastAPI, worker: MirrorWorker) -> None:
    """Put the layers around the application; the one that is added last is the outermost."""
    settings = worker.config.worker
    app.add_middleware(EncodedPaths)
    app.add_middleware(ForwardRetries)
    origins = [each.strip() for each in settings.access_control_allow_origin.split(",") if each.strip()]
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=settings.access_control_allow_methods or CORS_METHODS_DEFAULT,
            allow_headers=["*"],
        )
    app.add_middleware(RequestGuard)


async def _answer_bad_parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_answer(400, "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()))
