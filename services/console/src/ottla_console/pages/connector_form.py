"""Creating a connector, and changing one: a form made from the plugin's own settings, checked as it is typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.responses import Response

from ottla_console.access.actions import Refused as NotAllowed
from ottla_console.clusters.connect_workers import ANSWER_TIMEOUT_S
from ottla_console.pages.connect_access import ask_workers, change_by_workers, look, may_change
from ottla_console.pages.connector import definitions_of
from ottla_console.pages.routing import View
from ottla_console.pages.visit import BadForm, NotFound, Visit
from ottla_console.views.connector import secret_keys, shown_config
from ottla_console.views.connector_form import (
    CLASS_KEY,
    JSON,
    NAME_KEY,
    BadConnector,
    check_retyped,
    config_mark,
    field_errors,
    form_groups,
    found_problems,
    json_text,
    more_settings,
    typed_config,
    unshown_keys,
    with_kept_secrets,
    with_untouched_fields,
)
from ottla_operations.errors import OperationError
from ottla_operations.workers.connect_client import ConnectClient, connector_path, plugin_path
from ottla_sdk.runtime.redaction import HIDDEN

VALIDATED_WITHIN_S: Final = ANSWER_TIMEOUT_S + 5
AGAIN: Final = "again"


@dataclass(frozen=True, slots=True)
class _Stored:
    """The connector that is changed: its settings, and which of them are secrets; nothing for a new one."""

    name: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()

    @property
    def mark(self) -> str:
        """By which it is seen that somebody else has changed it."""
        return config_mark(shown_config(self.config, self.secrets))


async def show(visit: Visit) -> Response:
    """Show the form of a new connector of the class in the address, or that of one that is there."""
    stored = await _stored(visit)
    plugin = stored.config.get(CLASS_KEY, "") or visit.query("class")
    if not plugin:
        return visit.redirect(visit.address("connect", "plugins"))
    config = dict(stored.config) or {CLASS_KEY: plugin}
    infos = await _validated(visit, config)
    return _form(visit, stored, config, infos, as_json=visit.query("as") == JSON, is_first=True)


async def check(visit: Visit) -> Response:
    """Answer with what is wrong with the settings as they are typed just now; nothing is changed."""
    infos: dict[str, Any] | None = None
    problem = None
    try:
        infos = await _validated(visit, _full(visit, await _stored(visit)))
    except (BadConnector, OperationError) as error:
        problem = str(error)
    return visit.render(
        "connector_check.html",
        problem=problem,
        problems=found_problems(infos) if infos else [],
        errors=field_errors(infos, visit.form) if infos else [],
    )


async def save(visit: Visit) -> Response:
    """Create or change the connector; what is wrong is told beside the form as it was filled in."""
    stored = await _stored(visit)
    typed: dict[str, str] = {}
    infos: dict[str, Any] | None = None
    try:
        typed = typed_config(visit.form)
        config = _full(visit, stored)
        infos = await _validated(visit, config)
        if AGAIN in visit.form:
            return _form(visit, stored, config, infos, as_json=False)
        if not config.get(NAME_KEY):
            raise BadConnector(f"{NAME_KEY}: it must be set")
        if found_problems(infos):
            return _form(visit, stored, config, infos, as_json=JSON in visit.form, status=400)
        await _carry_out(visit, stored, config)
    except NotAllowed:
        raise
    except (BadConnector, OperationError) as error:
        if not typed:  # the browser still has what it sent
            raise BadForm(str(error)) from None
        as_json = JSON in visit.form or infos is None
        return _form(visit, stored, typed, infos, as_json=as_json, status=409, problem=str(error))
    name = config[NAME_KEY]
    done = "was changed" if stored.name else "was created"
    return visit.redirect(visit.address("connect", "connectors", name), notice=f"Connector {name} {done}.")


async def _carry_out(visit: Visit, stored: _Stored, config: Mapping[str, str]) -> None:
    name, shown_mark = config[NAME_KEY], visit.form.get("mark", "")

    def create(client: ConnectClient) -> None:
        client.ask("POST", "/connectors", {"name": name, "config": config})

    def change(client: ConnectClient) -> None:
        if _look(client, name).mark != shown_mark:
            raise OperationError(f"nothing was changed: somebody else has changed {name}; load its settings again")
        client.ask("PUT", connector_path(name, "config"), config)

    await change_by_workers(
        visit,
        "connector.change" if stored.name else "connector.create",
        name,
        change if stored.name else create,
        plugin=config[CLASS_KEY],
        settings=sorted(config),
    )


async def _stored(visit: Visit) -> _Stored:
    name = visit.request.path_params.get("connector")
    return _Stored() if name is None else await ask_workers(visit, lambda client: _look(client, name))


def _look(client: ConnectClient, name: str) -> _Stored:
    config = look(client, name).config
    return _Stored(name, config, secret_keys(config, definitions_of(client, config)))


def _full(visit: Visit, stored: _Stored) -> dict[str, str]:
    """Return the settings that the form asks for, with the secrets that stay.

    Raises:
        BadConnector: they cannot be read, or have no class or no name.
    """
    typed = typed_config(visit.form)
    check_retyped(visit.form, typed)
    config = with_kept_secrets(typed, stored.config, stored.secrets)
    if typed.get(CLASS_KEY) == stored.config.get(CLASS_KEY):  # another plugin gets no secrets of this one
        config = with_untouched_fields(config, visit.form, stored.config, stored.secrets)
    if stored.name:
        config[NAME_KEY] = stored.name
    if not config.get(CLASS_KEY):
        raise BadConnector(f"{CLASS_KEY}: it must be set")
    return config


async def _validated(visit: Visit, config: Mapping[str, str]) -> dict[str, Any]:
    path = plugin_path(config[CLASS_KEY], "config", "validate")

    def question(client: ConnectClient) -> dict[str, Any]:
        infos: dict[str, Any] = client.ask("PUT", path, dict(config))
        return infos

    try:
        return await ask_workers(visit, question, within_s=VALIDATED_WITHIN_S)
    except NotFound as error:
        raise BadForm(str(error)) from None


def _form(
    visit: Visit,
    stored: _Stored,
    config: Mapping[str, str],
    infos: Mapping[str, Any] | None,
    *,
    as_json: bool,
    is_first: bool = False,
    status: int = 200,
    problem: str | None = None,
) -> Response:
    kept = {key for key in stored.secrets if config.get(key, HIDDEN) in (stored.config[key], HIDDEN)}
    secrets = unshown_keys(config, infos) | kept
    retyped = sorted(key for key in secrets - kept if config.get(key, HIDDEN) != HIDDEN)
    known = infos or {"groups": [], "configs": []}
    is_untouched = is_first and not stored.name
    return visit.render(
        "connector_form.html",
        status=status,
        stored=stored,
        plugin=config.get(CLASS_KEY, ""),
        name=config.get(NAME_KEY, ""),
        groups=[] if as_json else form_groups(known, config, kept),
        more=more_settings(known, config, secrets),
        json=json_text(config, secrets if not is_untouched else frozenset()) if as_json else None,
        problem=problem,
        retype=[] if is_untouched else retyped,
        problems=[] if is_untouched else found_problems(known),
        is_untouched=is_untouched,
        mark=visit.form.get("mark", stored.mark),
        may_change=may_change(visit),
    )


VIEWS: Final = (
    View("/connect/new", show, "connect"),
    View("/connect/new", save, "connect", method="POST"),
    View("/connect/new/check", check, "connect", method="POST"),
    View("/connect/connectors/{connector:segment}/edit", show, "connect"),
    View("/connect/connectors/{connector:segment}/edit", save, "connect", method="POST"),
    View("/connect/connectors/{connector:segment}/edit/check", check, "connect", method="POST"),
)
"""The form, for a new connector and for one that is there."""
