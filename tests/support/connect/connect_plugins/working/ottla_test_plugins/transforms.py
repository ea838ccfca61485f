"""Transforms and a predicate for records whose value has a position."""

from ottla_sdk import ConnectRecord, PluginConfig, Predicate, Transform, setting
from ottla_test_plugins.faults import FaultConfig, Faults


class AddOneConfig(PluginConfig):
    """Settings of `AddOne`."""

    field: str = setting("field", doc="The field to add to.")


class AddOne(Transform[AddOneConfig]):
    """Adds one to a field of the value."""

    config_model = AddOneConfig

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return record.replaced(value={**record.value, self.config.field: record.value[self.config.field] + 1})


class Faulty(Transform[FaultConfig]):
    """Fails as it is told to; `fault.where` must be apply."""

    config_model = FaultConfig
    faults: Faults | None = None

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self.faults is None:
            self.faults = Faults(self.config)
        self.faults.at("apply")
        return record


class IsOdd(Predicate[PluginConfig]):
    """Holds for records with an odd position."""

    def test(self, record: ConnectRecord) -> bool:
        return bool(record.value["position"] % 2)
