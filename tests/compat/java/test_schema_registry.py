"""The converters with a schema registry that others wrote, and that checks what it is given: Apicurio's."""

from collections.abc import Iterator

import pytest

from ottla_schema_registry import AvroConverter, JsonSchemaConverter, ProtobufConverter
from ottla_sdk import Converter, DataError, Role
from ottla_sdk.schema import INT32, STRING, struct_schema
from tests.support.reference.apicurio_registry import running_apicurio
from tests.unit.plugins.schema_registry.schemas import EVERYTHING, VALUE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requires("kafka"),
    pytest.mark.requires("apicurio"),
]

CONVERTERS = (
    (AvroConverter, {}),
    (JsonSchemaConverter, {}),
    (ProtobufConverter, {"optional.for.nullables": "true"}),
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_apicurio(tmp_path_factory.mktemp("apicurio")) as url:
        yield url


@pytest.fixture
def make(registry):
    made: list[Converter] = []

    def make_converter(kind, **config):
        converter = kind()
        converter.role = Role.VALUE
        converter.configure({"schema.registry.url": registry} | config)
        converter.start()
        made.append(converter)
        return converter

    yield make_converter
    for converter in made:
        converter.close()


@pytest.mark.parametrize(("kind", "config"), CONVERTERS)
def test_values_come_back_as_they_were(make, kind, config):
    topic = f"everything-{kind.__name__}"
    written = make(kind, **config).serialize(topic, EVERYTHING, VALUE)
    assert make(kind, **config).deserialize(topic, written).value == VALUE


@pytest.mark.parametrize(("kind", "config"), CONVERTERS)
def test_a_schema_that_is_there_is_found_without_registering(make, kind, config):
    topic = f"known-{kind.__name__}"
    schema = struct_schema({"id": INT32, "name": STRING}, name="acme.Order")
    written = make(kind, **config).serialize(topic, schema, {"id": 1, "name": "x"})
    looking = make(kind, **config, **{"auto.register.schemas": "false"})
    assert looking.serialize(topic, schema, {"id": 1, "name": "x"}) == written
    latest = make(kind, **config, **{"auto.register.schemas": "false", "use.latest.version": "true"})
    assert latest.serialize(topic, schema, {"id": 1, "name": "x"}) == written
    with pytest.raises(DataError, match="error 404"):
        looking.serialize(f"unknown-{kind.__name__}", schema, {"id": 1, "name": "x"})


def test_what_the_registry_refuses_is_a_data_error(make):
    schema = struct_schema({"no-name-for-avro": INT32}, name="acme.Order")
    with pytest.raises(DataError, match="refuses"):
        make(AvroConverter).serialize("refused", schema, {"no-name-for-avro": 1})
