"""Plugin classes are found by their full names, bare names and aliases."""

import re

import pytest

from ottla_connect.task.rest_types import rest_types
from ottla_sdk import ConfigProvider, Connector, Converter, Plugin, Predicate, SourceConnector, Transform, class_name
from ottla_sdk.runtime.class_policy import ClassPolicy
from ottla_sdk.runtime.plugin_lookup import PluginLookup, PluginNotFound, PluginRefused
from ottla_sdk.runtime.plugin_name import KnownClass, names


@pytest.mark.parametrize(
    "name",
    [
        "ottla_test_plugins.sources.ListSource",
        "ottla_test_plugins.ListSource",
        "ListSource",
        "org.example.ListSourceConnector",
        " ListSource ",
    ],
)
def test_a_class_goes_by_all_its_names(name):
    lookup = PluginLookup()
    found = lookup.find(name, Connector)
    assert class_name(found) == "ottla_test_plugins.sources.ListSource"
    assert lookup.version(found) == "1.2.3"


@pytest.mark.parametrize("name", ["", "NoSuch", "sources.ListSource", "ottla_test_plugins.other.ListSource"])
def test_other_names_find_nothing(name):
    with pytest.raises(PluginNotFound, match="no installed plugin has a connector"):
        PluginLookup().find(name, Connector)


def test_only_classes_of_the_kind_are_found():
    with pytest.raises(PluginNotFound):
        PluginLookup().find("ListSource", Transform)


def test_the_obvious_plugin_is_imported_and_no_other():
    lookup = PluginLookup()
    lookup.find("ottla_test_plugins.ListSource", Connector)
    assert [each.name for each in lookup._loaded] == ["test-plugins"]


def test_kafkas_own_names_are_found():
    assert PluginLookup().find("org.apache.kafka.connect.json.JsonConverter", Converter).__name__ == "JsonConverter"


KNOWN = [
    KnownClass(
        "ottla_test_plugins.sources.ListSource", ["ListSource", "org.example.ListSourceConnector"], SourceConnector
    ),
    KnownClass("x.JsonConverter", ["JsonConverter", "Json"], Converter),
]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("ListSorce", "has a connector ListSorce; did you mean ListSource?"),
        ("org.other.ListSourceConnectr", "; did you mean ListSource?"),
        ("JsonConvertr", "has a connector JsonConvertr"),
        ("sources.ListSource", "has a connector sources.ListSource; did you mean ListSource?"),
    ],
)
def test_where_all_classes_are_known_an_unknown_name_is_refused_before_any_plugin_is_imported(name: str, told: str):
    lookup = PluginLookup(known=KNOWN)
    with pytest.raises(PluginNotFound) as refusal:
        lookup.find(name, Connector)
    assert str(refusal.value).endswith(told)
    assert not lookup._loaded


@pytest.mark.parametrize(
    "name", ["ottla_test_plugins.sources.ListSource", "ottla_test_plugins.ListSource", "ListSource", " ListSource "]
)
def test_where_all_classes_are_known_the_plugin_that_has_it_is_imported_and_no_other(name: str):
    lookup = PluginLookup(known=KNOWN)
    assert lookup.find(name, Connector).__name__ == "ListSource"
    assert [each.name for each in lookup._loaded] == ["test-plugins"]


@pytest.mark.usefixtures("broken_plugin")
def test_a_plugin_that_cannot_be_imported_is_passed_over_and_named_when_nothing_is_found():
    lookup = PluginLookup()
    with pytest.raises(PluginNotFound, match="broken-plugin cannot be imported: ModuleNotFoundError"):
        lookup.find("NoSuch", Connector)
    assert lookup.find("ListSource", Connector)


def test_short_names_leave_off_what_kafkas_do():
    lookup = PluginLookup()
    assert names(lookup.find("JsonConverter", Converter))[:2] == ["JsonConverter", "Json"]
    assert rest_types(lookup.find("JsonConverter", Converter)) == ("converter", "header_converter")
    assert rest_types(lookup.find("CollectingSink", Connector)) == ("sink",)


ALL_NAMES = ("ListSource", "ottla_test_plugins.ListSource", "org.example.ListSourceConnector")


@pytest.mark.parametrize("name", ALL_NAMES)
@pytest.mark.parametrize("denied", [*ALL_NAMES, "ottla_test_plugins.sources.*", "*Source"])
def test_a_class_that_is_denied_by_one_name_is_found_by_none(name, denied):
    with pytest.raises(PluginRefused, match=re.escape(f"connector.classes.denied has {denied}")):
        PluginLookup(policy=ClassPolicy(denied=[denied])).find(name, Connector)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_only_classes_that_are_allowed_are_found(name):
    allowed = PluginLookup(policy=ClassPolicy(allowed=["ottla_test_plugins.sources.List*"]))
    assert allowed.find(name, Connector).__name__ == "ListSource"
    for patterns in (["ottla_test_plugins.sinks.*"], []):
        with pytest.raises(PluginRefused, match=r"ListSource is not among the worker's connector\.classes\.allowed"):
            PluginLookup(policy=ClassPolicy(allowed=patterns)).find(name, Connector)


def test_what_is_denied_is_not_allowed_by_another_pattern():
    with pytest.raises(PluginRefused):
        PluginLookup(policy=ClassPolicy(allowed=["ListSource"], denied=["ListSource"])).find("ListSource", Connector)


@pytest.mark.parametrize(
    ("name", "kind"), [("JsonConverter", Converter), ("HoistFieldValue", Transform), ("HasHeaderKey", Predicate)]
)
@pytest.mark.parametrize("policy", [ClassPolicy(allowed=["*Source"]), ClassPolicy(denied=["ottla_standard.*"])])
def test_the_policy_is_about_all_that_connectors_name_and_not_about_what_the_worker_names(name, kind, policy):
    lookup = PluginLookup(policy=policy)
    for asked in (kind, Plugin):
        with pytest.raises(PluginRefused, match=r"connector\.classes"):
            lookup.find(name, asked)
    assert issubclass(lookup.find(name, kind, is_workers=True), kind)
    assert lookup.find("FileConfigProvider", ConfigProvider)
