"""The documents about settings that the REST API shows."""

from pydantic import SecretStr

from ottla_connect.task.settings.config_infos import config_infos, key_infos, unknown_value_info, value_info
from ottla_sdk import PluginConfig, setting


class Model(PluginConfig):
    url: str = setting("url", doc="Where.")
    password: SecretStr = setting("password", SecretStr("initial"), doc="For whom.", group="Login")


def definitions(**options):
    return {each["name"]: each for each in key_infos(Model, **options)}


def test_a_secret_is_hidden_and_so_is_its_default():
    password = definitions()["password"]
    assert password["type"] == "PASSWORD"
    assert password["default_value"] == "[hidden]"
    assert value_info(password, "hunter22", ())["value"]["value"] == "[hidden]"
    assert value_info(password, None, ())["value"]["value"] == "[hidden]"


def test_a_reference_to_a_secret_is_shown():
    shown = value_info(definitions()["password"], "${env:PASSWORD}", ())
    assert shown["value"]["value"] == "${env:PASSWORD}"


def test_headings_come_from_the_setting_or_else_from_the_plugin():
    assert [each["group"] for each in key_infos(Model, group="Model")] == ["Model", "Login"]


def test_settings_of_a_part_have_its_prefix_and_heading():
    found = definitions(prefix="transforms.x.", group="Transforms: x")
    assert list(found) == ["transforms.x.url", "transforms.x.password"]
    assert {each["group"] for each in found.values()} == {"Transforms: x"}


def test_errors_are_counted():
    url = definitions()["url"]
    document = config_infos(
        "C", ["a", "b", "a"], [value_info(url, "x", ["1", "2"]), unknown_value_info("k", "v", ["3"])]
    )
    assert document["error_count"] == 3
    assert document["groups"] == ["a", "b"]
    assert document["configs"][1] == {
        "definition": None,
        "value": {"name": "k", "value": "v", "recommended_values": [], "errors": ["3"], "visible": True},
    }
