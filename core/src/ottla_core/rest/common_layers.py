"""What surrounds the resources of every worker's application: errors as answers, forwarding, and layers around it."""

from collections.abc import Sequence
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, Response

from ottla_core.rest.authentication import Access, Authentication
from ottla_core.rest.docs_page import docs_page
from ottla_core.rest.error_answers import answer_http_exception, answer_request_error, error_answer
from ottla_core.rest.errors import Elsewhere, RequestError
from ottla_core.rest.forwarding import PATIENCE_S, Forwarder, ForwardRetries
from ottla_core.rest.path_segments import EncodedPaths
from ottla_core.rest.request_guard import REQUEST_TIMEOUT_S, RequestGuard

CORS_METHODS_DEFAULT: Final = ("GET", "POST", "HEAD")


def surround(
    app: FastAPI,
    forwarder: Forwarder,
    *,
    allowed_origins: Sequence[str],
    allowed_methods: Sequence[str],
    access: Access | None = None,
    forward_patience_s: float = PATIENCE_S,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
) -> None:
    """Add to an application that has its resources what is the same for all workers.

    Args:
        app: the application.
        forwarder: sends on what another worker has to answer.
        allowed_origins: sites whose pages may use it, or ``*``; empty for none.
        allowed_methods: the methods that those may use; empty for `CORS_METHODS_DEFAULT`.
        access: who may use it; None: whoever reaches it.
        forward_patience_s: how long a request waits for a successor of the worker that has to answer it.
        request_timeout_s: how long a request may take.
    """

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
    # The layer that is added last is the outermost.
    app.add_middleware(EncodedPaths)
    app.add_middleware(ForwardRetries, patience_s=forward_patience_s)
    if access is not None:
        app.add_middleware(Authentication, access=access, allowed_origins=allowed_origins)
    if allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=allowed_origins,
            allow_methods=allowed_methods or CORS_METHODS_DEFAULT,
            allow_headers=["*"],
        )
    app.add_middleware(RequestGuard, timeout_s=request_timeout_s)


async def _answer_bad_parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_answer(400, "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()))
