"""The hooks, names and aliases of the standard plugins."""

import importlib.metadata

import pluggy
import pytest

import ottla_standard
from ottla_sdk import ENTRY_POINT_GROUP, class_name, hookspecs
from ottla_sdk.config_description import describe
from ottla_sdk.hookspecs import PROJECT

EVERYTHING = (
    *ottla_standard.CONVERTERS,
    *ottla_standard.TRANSFORMS,
    *ottla_standard.PREDICATES,
    *ottla_standard.CONFIG_PROVIDERS,
)
# The classes that Kafka Connect 4 comes with.
JAVA_TRANSFORMS = {
    f"org.apache.kafka.connect.transforms.{name}${part}"
    for name in ("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField",
                 "ReplaceField", "SetSchemaMetadata", "TimestampConverter")
    for part in ("Key", "Value")
} | {
    f"org.apache.kafka.connect.transforms.{name}"
    for name in ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
}  # fmt: skip


def test_the_hooks_return_every_class():
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    (entry_point,) = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP, name="standard")
    manager.register(entry_point.load())
    assert manager.hook.ottla_converters() == [ottla_standard.CONVERTERS]
    assert manager.hook.ottla_transforms() == [ottla_standard.TRANSFORMS]
    assert manager.hook.ottla_predicates() == [ottla_standard.PREDICATES]
    assert manager.hook.ottla_config_providers() == [ottla_standard.CONFIG_PROVIDERS]


def test_every_transform_of_kafka_has_its_alias():
    assert {alias for each in ottla_standard.TRANSFORMS for alias in each.aliases} >= JAVA_TRANSFORMS


@pytest.mark.parametrize("plugin", EVERYTHING, ids=lambda each: each.__name__)
def test_every_class_is_found_by_its_public_name_and_describes_itself(plugin):
    assert class_name(plugin) == f"ottla_standard.{plugin.__name__}"
    assert getattr(ottla_standard, plugin.__name__) is plugin
    assert plugin.__name__ in ottla_standard.__all__
    assert plugin.__doc__
    for each in describe(plugin.config_model):
        assert each.documentation.endswith("."), each.key


def test_no_two_classes_have_the_same_alias():
    aliases = [alias for each in EVERYTHING for alias in each.aliases]
    assert len(aliases) == len(set(aliases))
