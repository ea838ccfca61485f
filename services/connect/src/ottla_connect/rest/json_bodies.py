"""What the bodies of requests say. Pure.

Kafka Connect answers a body that it cannot read with status 500, whatever is wrong with it, and so does this; but the
message says what and where. Values of a connector's settings may be numbers and booleans: they become the strings as
which they were written, as Jackson makes of them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never

from ottla_connect.connector_states import TargetState
from ottla_connect.herder.api import ConnectorOffsets
from ottla_core.rest.errors import BadRequest, RequestError

INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}
SHOWN_CHARACTERS_MAX = 60


class UnreadableBody(RequestError):
    """A body is no JSON, or not of the shape that the resource takes."""

    status = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnectorRequest:
    """A connector to be made.

    Attributes:
        name: its name, without whitespace around it; empty if none is given.
        config: its settings, without `name`.
        initial_state: the state in which it is to be; None if nothing is said.
    """

    name: str
    config: dict[str, str]
    initial_state: TargetState | None


def parse_create_request(body: bytes) -> CreateConnectorRequest:
    """Read the body of ``POST /connectors``.

    Raises:
        UnreadableBody: it has another shape.
        BadRequest: settings are null.
    """
    document = _object(_parse(body, keep_numbers=True), "a connector to create")
    _refuse_unknown(document, ("name", "config", "initial_state"), "a connector to create")
    if document.get("config") is None:
        raise UnreadableBody('"config" is missing: write {"name": …, "config": {…}}')
    name = document.get("name")
    return CreateConnectorRequest(
        name="" if name is None else _text(name, '"name"').strip(),
        config=_settings(document["config"], '"config"'),
        initial_state=_initial_state(document.get("initial_state")),
    )


def parse_settings(body: bytes) -> dict[str, str]:
    """Read a body that is a mapping of settings.

    Raises:
        UnreadableBody: it has another shape.
        BadRequest: settings are null.
    """
    return _settings(_parse(body, keep_numbers=True), "the body")


def parse_patch(body: bytes) -> dict[str, str | None]:
    """Read a body that changes some settings and removes those that are null (KIP-477).

    Raises:
        UnreadableBody: it has another shape.
    """
    return _nullable_settings(_parse(body, keep_numbers=True), "the body")


def parse_task_configs(body: bytes) -> list[dict[str, str]]:
    """Read the settings of a connector's tasks.

    Raises:
        UnreadableBody: it has another shape.
        BadRequest: settings are null.
    """
    document = _parse(body, keep_numbers=True)
    if not isinstance(document, list):
        raise UnreadableBody(f"the body must be an array of tasks' settings, not {_describe(document)}")
    return [_settings(each, f"item {number} of the body") for number, each in enumerate(document)]


def parse_offsets(body: bytes) -> ConnectorOffsets:
    """Read the body of ``PATCH /connectors/{connector}/offsets``.

    Raises:
        UnreadableBody: it has another shape.
        BadRequest: it holds no offsets.
    """
    document = _object(_parse(body, keep_numbers=False), "the body")
    _refuse_unknown(document, ("offsets",), "the body")
    offsets = document.get("offsets")
    if offsets is None or offsets == []:
        raise BadRequest('The body sets no offsets: "offsets" is missing or empty')
    if not isinstance(offsets, list):
        raise UnreadableBody(f'"offsets" must be an array, not {_describe(offsets)}')
    return [_offset(each, f'item {number} of "offsets"') for number, each in enumerate(offsets)]


def parse_level(body: bytes) -> str:
    """Read the body of ``PUT /admin/loggers/{logger}``.

    Raises:
        UnreadableBody: it has another shape.
        BadRequest: it names no level.
    """
    level = _nullable_settings(_parse(body, keep_numbers=True), "the body").get("level")
    if level is None:
        raise BadRequest('The body names no level; write {"level": "DEBUG"}, for example')
    return level


class _Number(str):
    """A number of a JSON document, as it is written."""

    __slots__ = ()


def _parse(body: bytes, *, keep_numbers: bool) -> Any:
    if not body.strip():
        raise UnreadableBody("the request has no body; this resource takes JSON")
    of_integer, of_float = (_Number, _Number) if keep_numbers else (int, float)
    try:
        document = json.loads(body, parse_int=of_integer, parse_float=of_float, parse_constant=_refuse_constant)
        # JSON can escape half of a surrogate pair, which no UTF-8 can say again.
        json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise UnreadableBody("the body is nested too deeply") from None
    except UnicodeEncodeError:
        raise UnreadableBody("the body has half of a surrogate pair in a string") from None
    except ValueError as error:
        raise UnreadableBody(f"the body is no JSON: {error}") from None
    return document


def _refuse_constant(constant: str) -> Never:
    raise ValueError(f"{constant} is no number of JSON")


def _settings(document: Any, what: str) -> dict[str, str]:
    settings = _nullable_settings(document, what)
    if without_value := sorted(key for key, value in settings.items() if value is None):
        raise BadRequest(
            f"Null is not a value of a setting: {', '.join(without_value)}; leave out what shall have its default"
        )
    return {key: value for key, value in settings.items() if value is not None}


def _nullable_settings(document: Any, what: str) -> dict[str, str | None]:
    return {
        key: None if value is None else _text(value, f"setting {key} of {what}")
        for key, value in _object(document, what).items()
    }


def _offset(document: Any, what: str) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    pair = _object(document, what)
    _refuse_unknown(pair, ("partition", "offset"), what)
    if pair.get("partition") is None:
        raise BadRequest(f'{what} has no "partition", so it is unclear which offset it sets')
    offset = pair.get("offset")
    return (
        _object(pair["partition"], f'"partition" in {what}'),
        None if offset is None else _object(offset, f'"offset" in {what}'),
    )


def _initial_state(value: Any) -> TargetState | None:
    if value is None:
        return None
    state = INITIAL_STATES.get(_text(value, '"initial_state"').upper())
    if state is None:
        raise UnreadableBody(f'"initial_state" must be one of {", ".join(INITIAL_STATES)}, not {_describe(value)}')
    return state


def _text(value: Any, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value)
    raise UnreadableBody(f"{what} must be a string, not {_describe(value)}")


def _object(document: Any, what: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UnreadableBody(f"{what} must be a JSON object, not {_describe(document)}")
    return document


def _refuse_unknown(document: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    if unknown := [key for key in document if key not in known]:
        raise UnreadableBody(f"{what} has no field {', '.join(unknown)}; there are {', '.join(known)}")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"
