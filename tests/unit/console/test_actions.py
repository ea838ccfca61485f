"""What changes something is guarded and recorded, whatever becomes of it."""

import json
from pathlib import Path

import pytest

from ottla_console.access.actions import Action, Actions, Refused
from ottla_console.access.audit_log import AuditLog
from ottla_operations.errors import OperationError


class Effect:
    """An effect that counts how often it is had."""

    def __init__(self, error: Exception | None = None) -> None:
        self.times = 0
        self._error = error

    async def __call__(self) -> str:
        self.times += 1
        if self._error is not None:
            raise self._error
        return "done"


def deletion(confirmation: str | None = "flights") -> Action:
    return Action(
        name="topic.delete", target="flights", user="ann", cluster="prod", confirmation=confirmation, needed="flights"
    )


def records(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_an_action_is_carried_out_and_recorded(tmp_path: Path) -> None:
    effect, path = Effect(), tmp_path / "audit.log"
    actions = Actions(AuditLog(path), read_only=False)
    assert await actions.carry_out(deletion(), effect) == "done"
    (record,) = records(path)
    told = {name: record[name] for name in ("user", "cluster", "action", "target", "outcome")}
    assert told == {
        "user": "ann", "cluster": "prod", "action": "topic.delete", "target": "flights", "outcome": "done"
    }  # fmt: skip


@pytest.mark.parametrize("confirmation", [None, "", "flight", "Flights", "flights "])
async def test_what_was_not_confirmed_has_no_effect(tmp_path: Path, confirmation: str | None) -> None:
    effect, path = Effect(), tmp_path / "audit.log"
    with pytest.raises(Refused, match="type flights"):
        await Actions(AuditLog(path), read_only=False).carry_out(deletion(confirmation), effect)
    assert effect.times == 0
    assert records(path)[0]["outcome"] == "refused"


async def test_what_the_settings_forbid_has_no_effect(tmp_path: Path) -> None:
    effect, path = Effect(), tmp_path / "audit.log"
    forbidden = Action(name="connector.stop", target="c", user="ann", cluster="prod", forbidden="connectors stay")
    with pytest.raises(Refused, match="connectors stay; nothing was changed"):
        await Actions(AuditLog(path), read_only=False).carry_out(forbidden, effect)
    assert effect.times == 0
    assert records(path)[0]["outcome"] == "refused"


async def test_a_read_only_console_changes_nothing(tmp_path: Path) -> None:
    effect, path = Effect(), tmp_path / "audit.log"
    with pytest.raises(Refused, match="read-only"):
        await Actions(AuditLog(path), read_only=True).carry_out(deletion(), effect)
    assert effect.times == 0
    assert records(path)[0]["outcome"] == "refused"


@pytest.mark.parametrize("error", [OperationError("not authorized"), RuntimeError("a defect")])
async def test_an_effect_that_fails_is_recorded_and_told(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "audit.log"
    with pytest.raises(type(error)):
        await Actions(AuditLog(path), read_only=False).carry_out(deletion(), Effect(error))
    assert records(path)[0]["outcome"] == "failed"
