"""A schema registry in a process of its own, and converters that use it."""

from collections.abc import Iterator

import pytest

from ottla_sdk import Converter, Role
from tests.support.servers.schema_registry_server import SchemaRegistryServer, running_schema_registry


@pytest.fixture(scope="module")
def registry_process() -> Iterator[SchemaRegistryServer]:
    with running_schema_registry() as server:
        yield server


@pytest.fixture
def registry(registry_process: SchemaRegistryServer) -> SchemaRegistryServer:
    """An empty registry."""
    registry_process.clear()
    return registry_process


@pytest.fixture
def make(registry: SchemaRegistryServer):
    """Makes converters that use the registry, and closes them."""
    made: list[Converter] = []

    def make_converter(kind, role=Role.VALUE, **config):
        converter = kind()
        converter.role = role
        settings = {"schema.registry.url": registry.url, "retries.wait.ms": "0"}
        converter.configure(settings | {key.replace("_", "."): str(value) for key, value in config.items()})
        converter.start()
        made.append(converter)
        return converter

    yield make_converter
    for converter in made:
        converter.close()
