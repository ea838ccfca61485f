"""How resources describe themselves in the OpenAPI document, beyond what FastAPI sees of their functions."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, TypeAdapter

from ottla_connect.rest.entities import ErrorMessage

_REASONS = {
    400: "The request is wrong.",
    403: "Not allowed.",
    404: "There is no such thing.",
    409: "Not possible in this state, or the workers are rebalancing.",
    500: "Not carried out.",
    503: "Not ready yet.",
}

ConnectorName = Annotated[str, Path(alias="connector", description="The connector's name, escaped as in any URL.")]
TaskNumber = Annotated[str, Path(alias="task", description="The task's number, from 0.")]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the errors that a resource can answer with."""
    return {status: {"model": ErrorMessage, "description": _REASONS[status]} for status in (*statuses, 500)}


def takes(shape: Any, example: Any) -> dict[str, Any]:
    """Return the description of the body that a resource takes.

    Args:
        shape: a model, or any other type.
        example: such a body.
    """
    is_model = isinstance(shape, type) and issubclass(shape, BaseModel)
    schema = shape.model_json_schema() if is_model else TypeAdapter(shape).json_schema()
    content = {"application/json": {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}}
