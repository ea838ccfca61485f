"""Errors as answers: the one place where an exception becomes a status and Kafka Connect's error body."""

import traceback

import structlog
from fastapi import Request
from fastapi.exceptions import ValidationException
from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match

from ottla_core.rest.errors import RequestError

log = structlog.get_logger("rest")


class ErrorMessage(BaseModel):
    """Why a request was not carried out."""

    error_code: int = Field(description="The HTTP status.")
    message: str = Field(description="What was wrong.")


def error_answer(status: int, message: str) -> JSONResponse:
    """Return the answer for a request that is not carried out."""
    return JSONResponse(ErrorMessage(error_code=status, message=message).model_dump(), status)


async def answer_request_error(_request: Request, error: Exception) -> Response:
    """Answer a refusal."""
    assert isinstance(error, RequestError)
    return error_answer(error.status, error.message)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Answer what no resource is there for, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        methods = sorted(_methods_at(request))
        headers = {"Allow": ", ".join(methods)}
        if request.method == "OPTIONS":
            return PlainTextResponse(headers["Allow"], headers=headers)
        answer = error_answer(405, f"HTTP 405 Method Not Allowed: this resource has {headers['Allow']}")
        answer.headers.update(headers)
        return answer
    return error_answer(error.status_code, f"HTTP {error.status_code} {error.detail}")


def internal_error_answer(method: str, path: str, error: Exception) -> Response:
    """Answer a request that our own fault kept from being carried out; the log says where it is."""
    if isinstance(error, ValidationError | ValidationException):
        # Its own text has the document that is not as it should be, in which there may be secrets.
        reason = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        trace = "".join(traceback.format_tb(error.__traceback__))
        log.error("a request failed", method=method, path=path, reason=reason, trace=trace)
    else:
        reason = str(error)
        log.error("a request failed", method=method, path=path, exc_info=error)
    return error_answer(500, f"internal error: {type(error).__name__}: {reason}")


def _methods_at(request: Request) -> set[str]:
    methods = {"OPTIONS"}
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    if "GET" in methods:
        methods.add("HEAD")
    return methods
