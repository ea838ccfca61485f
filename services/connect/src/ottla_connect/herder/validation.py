"""Validates connectors' settings, and describes plugin classes, in processes of their own.

Settings that a class's own code looks at may hang or end that process; the answer then says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.herder.views import CLASS_KEY
from ottla_connect.processes.host import ChildProcess, ProcessFailed, ProcessHost
from ottla_connect.processes.messages import (
    ChangeOffsets,
    CheckOffsets,
    ConfigDescribed,
    DescribeConfig,
    FenceTasks,
    OffsetsChanged,
    OffsetsChecked,
    TasksFenced,
    Validate,
    Validated,
)
from ottla_core.rest.errors import BadRequest, RequestError

VALIDATION_TIMEOUT_S = 60.0

Offsets = Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]


class Validation:
    """Asks plugin code what it thinks of settings and offsets."""

    def __init__(self, host: ProcessHost, catalog: PluginCatalog, worker_settings: Mapping[str, str]) -> None:
        self._host = host
        self._catalog = catalog
        self._worker_settings = dict(worker_settings)

    async def validate(self, config: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the `ConfigInfos` document of a connector's settings.

        Raises:
            BadRequest: they name no connector class.
            RequestError: the process that validates ended or took too long.
        """
        if not config.get(CLASS_KEY, "").strip():
            raise BadRequest(f"Connector config {dict.fromkeys(config, '…')} contains no connector type")
        purpose = Validate(
            settings=dict(config),
            worker=self._worker_settings,
            plugins=await self._catalog.all_classes(_class_names(config)),
        )
        answer = await self._ask(purpose, "the validation")
        assert isinstance(answer, Validated), answer
        return answer.infos

    async def require_valid(self, config: Mapping[str, str]) -> None:
        """Return if a connector's settings are valid.

        Raises:
            BadRequest: they are not; the message names every fault.
        """
        infos = await self.validate(config)
        count = infos["error_count"]
        if not count:
            return
        faults = [
            f"{each['value']['name']}: {error}" for each in infos["configs"] for error in each["value"]["errors"]
        ]
        raise BadRequest(
            f"The connector's settings have {count} error(s), which "
            "PUT /connector-plugins/{connector.class}/config/validate tells too:\n" + "\n".join(faults)
        )

    async def describe(self, plugin: str) -> Sequence[Mapping[str, Any]]:
        """Return the `ConfigKeyInfo` documents of a plugin class.

        Raises:
            RequestError: it cannot be loaded.
        """
        answer = await self._ask(DescribeConfig(plugin=plugin, worker=self._worker_settings), "loading the plugin")
        assert isinstance(answer, ConfigDescribed), answer
        if answer.error:
            raise RequestError(f"The plugin class cannot be loaded: {answer.error}")
        return answer.settings

    async def check_offsets(
        self, connector: str, config: Mapping[str, str], offsets: Offsets, *, removes_all: bool
    ) -> OffsetsChecked:
        """Return what a connector finds wrong with offsets that are to be set.

        Args:
            connector: its name.
            config: its settings.
            offsets: are to be set; None removes one.
            removes_all: those are to be removed, too, that a sink keeps in its target; the answer names them.
        """
        purpose = CheckOffsets(
            connector=connector,
            settings=dict(config),
            worker=self._worker_settings,
            offsets=_pairs(offsets),
            removes_all=removes_all,
        )
        answer = await self._ask(purpose, "checking the offsets")
        assert isinstance(answer, OffsetsChecked), answer
        return answer

    async def change_offsets(
        self,
        connector: str,
        config: Mapping[str, str],
        offsets: Offsets,
        *,
        on_started: Callable[[ChildProcess], object],
    ) -> None:
        """Have a sink change the offsets that it keeps in its target.

        Args:
            connector: its name.
            config: its settings.
            offsets: what they become; None removes one.
            on_started: is given the process, which changes nothing before it has a lease; what it raises ends it.

        Raises:
            RequestError: they are not changed.
        """
        purpose = ChangeOffsets(
            connector=connector, settings=dict(config), worker=self._worker_settings, offsets=_pairs(offsets)
        )
        answer = await self._ask(purpose, "changing the offsets in the target", on_started)
        assert isinstance(answer, OffsetsChanged), answer
        if answer.error is not None:
            raise RequestError(f"The offsets that connector {connector} keeps in its target: {answer.error}")

    async def fence_tasks(self, connector: str, config: Mapping[str, str], tasks: int) -> None:
        """End the transactions of so many former tasks, and keep these from beginning others.

        It takes a process, as only there the references in a connector's client settings are resolved.

        Raises:
            RequestError: some of them may still write.
        """
        purpose = FenceTasks(connector=connector, settings=dict(config), worker=self._worker_settings, tasks=tasks)
        answer = await self._ask(purpose, "fencing former tasks")
        assert isinstance(answer, TasksFenced), answer
        if answer.error is not None:
            raise RequestError(f"Former tasks of connector {connector} cannot be fenced: {answer.error}")

    async def _ask(
        self,
        purpose: Validate | DescribeConfig | CheckOffsets | ChangeOffsets | FenceTasks,
        what: str,
        on_started: Callable[[ChildProcess], object] = lambda _: None,
    ) -> Any:
        try:
            return await self._host.ask(purpose, timeout_s=VALIDATION_TIMEOUT_S, on_started=on_started)
        except ProcessFailed as error:
            raise RequestError(f"{what} did not come to an end: {error}") from None


def _class_names(config: Mapping[str, str]) -> list[str]:
    """Return what a connector's settings name as plugin classes; a few other words among them do no harm."""
    return [value for key, value in config.items() if key == CLASS_KEY or key.endswith((".converter", ".type"))]


def _pairs(offsets: Offsets) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    return [(dict(partition), dict(offset) if offset is not None else None) for partition, offset in offsets]
