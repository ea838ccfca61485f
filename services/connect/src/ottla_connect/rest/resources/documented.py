"""How resources describe themselves in the OpenAPI document, beyond what FastAPI sees of their functions."""

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, TypeAdapter

from ottla_core.rest.documented import errors

__all__ = ["ConnectorName", "TaskNumber", "errors", "takes"]

ConnectorName = Annotated[str, Path(alias="connector", description="The connector's name, escaped as in any URL.")]
TaskNumber = Annotated[str, Path(alias="task", description="The task's number, from 0.")]


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
