"""Which converter a connector gets, and with which settings."""

from ottla_connect.task.pipeline.converters import ChosenConverter, choose
from ottla_sdk import Role

WORKER = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "key.converter": "K"}


def test_a_connector_without_a_converter_has_the_workers_with_its_settings():
    own = {"value.converter.schemas.enable": "true"}
    assert choose(Role.VALUE, own, WORKER) == ChosenConverter("JsonConverter", {"schemas.enable": "false"}, True)


def test_a_connectors_own_converter_brings_its_own_settings_only():
    own = {"value.converter": "AvroConverter", "value.converter.schema.registry.url": "http://r"}
    assert choose(Role.VALUE, own, WORKER) == ChosenConverter(
        "AvroConverter", {"schema.registry.url": "http://r"}, False
    )


def test_each_role_has_its_own():
    assert choose(Role.KEY, {}, WORKER).class_name == "K"
    assert choose(Role.HEADER, {}, WORKER).class_name == "SimpleHeaderConverter"
