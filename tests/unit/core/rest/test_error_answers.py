"""What an answer says of a failure that is our own fault."""

import pytest
from pydantic import BaseModel, ValidationError

from ottla_core.rest.error_answers import internal_error_answer


class Document(BaseModel):
    """One that has to be whole."""

    count: int


def test_a_document_that_is_not_as_it_should_be_is_not_shown() -> None:
    with pytest.raises(ValidationError) as raised:
        Document.model_validate({"count": "the secret 4711"})
    body = bytes(internal_error_answer("GET", "/", raised.value).body)
    assert b"internal error: ValidationError: count: " in body
    assert b"4711" not in body


def test_what_else_has_failed_is_told() -> None:
    assert b"internal error: OSError: no room" in bytes(internal_error_answer("GET", "/", OSError("no room")).body)
