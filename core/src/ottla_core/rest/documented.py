"""How resources describe themselves in the OpenAPI document, beyond what FastAPI sees of their functions."""

from typing import Any

from ottla_core.rest.error_answers import ErrorMessage

_REASONS = {
    400: "The request is wrong.",
    403: "Not allowed.",
    404: "There is no such thing.",
    409: "Not possible in this state, or the workers are rebalancing.",
    500: "Not carried out.",
    503: "Not ready yet.",
}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the errors that a resource can answer with."""
    return {status: {"model": ErrorMessage, "description": _REASONS[status]} for status in (*statuses, 500)}
