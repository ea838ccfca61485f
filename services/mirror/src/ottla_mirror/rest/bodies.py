"""Bodies of requests as models; what is wrong with one is told by field. Pure."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ottla_core.rest.errors import BadRequest

Model = TypeVar("Model", bound=BaseModel)


def parsed(model: type[Model], body: bytes) -> Model:
    """Return what a body says.

    Raises:
        BadRequest: lists everything that is wrong.
    """
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        reasons = [
            f"{'.'.join(map(str, each['loc'])) or 'the body'}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        ]
        raise BadRequest("; ".join(reasons)) from None
