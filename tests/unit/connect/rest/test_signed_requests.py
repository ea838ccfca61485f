"""What workers ask of each other over REST is answered only with a signature (KIP-507)."""

import json

import pytest

from ottla_connect.herder.signatures import sign
from ottla_connect.rest.resources import fencing
from tests.unit.connect.rest.scripted_herder import SESSION_KEY

BODY = b"[]"
PATH = "/connectors/a/tasks"


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_signed_task_settings_are_stored(rest, herder, method):
    path, body = "/connectors/a%2Fb/tasks", json.dumps([{"x": "1"}]).encode()
    headers = {"Content-Type": "application/json", **sign(SESSION_KEY, "HmacSHA256", method, path, body)}
    answer = await rest.request(method, path, content=body, headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.stored_task_configs == {"a/b": [{"x": "1"}]}


async def test_unsigned_and_badly_signed_task_settings_are_refused(rest, herder):
    headers = {"Content-Type": "application/json"}
    unsigned = await rest.post(PATH, content=BODY, headers=headers)
    assert unsigned.json() == {"error_code": 400, "message": "Internal request missing required signature"}
    forged = await rest.post(
        PATH, content=BODY, headers={**headers, **sign(b"guess", "HmacSHA256", "POST", PATH, BODY)}
    )
    assert forged.json() == {"error_code": 403, "message": "Internal request contained invalid signature."}
    assert not herder.stored_task_configs


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'[{"a": []}]', b"x"])
async def test_signed_task_settings_of_another_shape_are_refused(rest, body):
    headers = {"Content-Type": "application/json", **sign(SESSION_KEY, "HmacSHA256", "POST", PATH, body)}
    assert (await rest.post(PATH, content=body, headers=headers)).status_code == 500


def test_only_workers_may_have_tasks_fenced() -> None:
    assert fencing.is_internal("PUT", "/connectors/a%2Fb/fence")
    assert not fencing.is_internal("PUT", "/connectors/a/fence/b")
    assert not fencing.is_internal("GET", "/connectors/a/fence")


async def test_former_tasks_are_fenced_for_other_workers_only(rest, herder):
    path, headers = "/connectors/a%2Fb/fence", {"Content-Type": "application/json"}
    assert (await rest.put(path, headers=headers)).status_code == 400
    forged = await rest.put(path, headers={**headers, **sign(b"guess", "HmacSHA256", "PUT", path, b"")})
    assert forged.status_code == 403
    assert herder.fenced == []
    answer = await rest.put(path, headers={**headers, **sign(SESSION_KEY, "HmacSHA256", "PUT", path, b"")})
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.fenced == ["a/b"]
