"""The single message transforms of a connector, one after the other, each perhaps only where a predicate holds.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ottla_connect.task.pipeline.error_handler import DROPPED, ErrorHandler
from ottla_connect.task.pipeline.errors import Stage
from ottla_sdk import ConnectRecord, Predicate, Transform
from ottla_sdk.runtime.plugin_lookup import PluginLookup

OriginalT = TypeVar("OriginalT")

PREDICATE_KEY = "predicate"
NEGATE_KEY = "negate"


def aliases(settings: Mapping[str, str], key: str) -> list[str]:
    """Return the names in a list such as that of `transforms`, without repetitions."""
    return list(dict.fromkeys(each.strip() for each in settings.get(key, "").split(",") if each.strip()))


def below(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings that begin with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Step:
    """A transform, and when it applies."""

    transform: Transform[Any]
    predicate: Predicate[Any] | None = None
    negate: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record as it is behind this step; None drops it."""
        if self.predicate is not None and bool(self.predicate.test(record)) is self.negate:
            return record
        return self.transform.apply(record)


def make_steps(settings: Mapping[str, str], lookup: PluginLookup) -> list[Step]:
    """Return the transforms of a connector's settings.

    Raises:
        PluginNotFound: there is no such class.
        InvalidConfig: their settings are wrong.
    """
    steps = []
    for alias in aliases(settings, "transforms"):
        own = below(settings, f"transforms.{alias}.")
        transform = lookup.find(own.get("type", ""), Transform)()  # type: ignore[type-abstract]
        transform.configure({key: value for key, value in own.items() if key not in (PREDICATE_KEY, NEGATE_KEY)})
        predicate = None
        if name := own.get(PREDICATE_KEY, "").strip():
            predicate_settings = below(settings, f"predicates.{name}.")
            predicate = lookup.find(predicate_settings.get("type", ""), Predicate)()  # type: ignore[type-abstract]
            predicate.configure(predicate_settings)
        steps.append(Step(transform, predicate, own.get(NEGATE_KEY, "false").strip().lower() == "true"))
    return steps


class TransformChain(Generic[OriginalT]):
    """Applies steps to records, and goes by the rules for errors where one fails."""

    def __init__(self, steps: Sequence[Step], handler: ErrorHandler[OriginalT]) -> None:
        self._steps = tuple(steps)
        self._handler = handler

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply(self, record: ConnectRecord, original: OriginalT) -> ConnectRecord | None:
        """Return the record behind the last step; None if a step drops it, or it is skipped because of an error.

        Raises:
            ToleranceExceeded: a step fails, and errors are not tolerated.
            Interrupted: the task is to stop.
        """
        for step in self._steps:
            try:
                changed = step.apply(record)
            except Exception as error:  # noqa: BLE001 - the handler decides about whatever a plugin raises
                changed = self._again(step, record, original, error)
            if changed is None:
                return None
            record = changed
        return record

    def close(self) -> None:
        """Give back what transforms and predicates have opened."""
        for step in self._steps:
            step.transform.close()
            if step.predicate is not None:
                step.predicate.close()

    def _again(
        self, step: Step, record: ConnectRecord, original: OriginalT, error: Exception
    ) -> ConnectRecord | None:
        result = self._handler.attempt(
            lambda: step.apply(record), original, Stage.TRANSFORMATION, type(step.transform), error
        )
        return None if result is DROPPED else result
