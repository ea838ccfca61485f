"""What the converters have in common: schemas are registered or looked up, values begin with the schema's number.

A format (Avro, JSON Schema, Protobuf) says how a Connect schema becomes one of its own and back (`SchemaWriter`,
`SchemaReader`), and how values go by it. Nothing here knows more of formats.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from cachetools import LRUCache

from ottla_schema_registry.registry.client import RegisteredSchema, RegistryClient
from ottla_schema_registry.registry.config import RegistryConfig
from ottla_schema_registry.registry.http_transport import HttpTransport
from ottla_schema_registry.subject_names import SubjectNameStrategy, subject_name
from ottla_schema_registry.wire_format import id_from_headers, read_id, write_id
from ottla_sdk import NO_VALUE, Converter, DataError, Header, Role, Schema, SchemaAndValue
from ottla_sdk.schema_cache import SchemaCache

_HEADER_PREFIX = "request.header."

ConfigT = TypeVar("ConfigT", bound=RegistryConfig)


class SchemaWriter(Protocol):
    """Writes values of one Connect schema.

    Attributes:
        registered: the format's schema, to be registered.
        record_name: its full name; None if it has none.
    """

    registered: RegisteredSchema
    record_name: str | None

    def __hash__(self) -> int:
        """Return a number of its own: two writers are never equal."""

    def write(self, value: Any) -> bytes:
        """Return a value's bytes, behind the schema's number; raises DataError."""


class SchemaReader(Protocol):
    """Reads values of one schema of the registry."""

    def read(self, data: bytes, start: int, indexes: bytes | None) -> SchemaAndValue:
        """Return the value that begins at `start`.

        Args:
            data: all of the value's bytes.
            start: where the bytes of the format begin.
            indexes: for Protobuf, the way to the message type, if it came in a header.

        Raises:
            DataError: the bytes are not of this schema.
        """


class RegistryConverter(Converter[ConfigT], Generic[ConfigT]):
    """A converter that keeps its schemas in a registry."""

    def start(self) -> None:
        """Get ready; the registry is asked when the first value comes."""
        config = self.config
        headers = {
            key.removeprefix(_HEADER_PREFIX): value
            for key, value in self.settings.items()
            if key.startswith(_HEADER_PREFIX)
        }
        self._is_key = self.role is Role.KEY
        self._strategy = config.key_strategy if self._is_key else config.value_strategy
        self._registry = RegistryClient(
            HttpTransport(config, headers),
            cache_size=config.schemas_cache_size,
            normalize=config.normalize,
            latest_ttl_s=None if config.latest_ttl_s < 0 else config.latest_ttl_s,
        )
        self._writers = SchemaCache(self.writer, config.schemas_cache_size)
        self._schemaless_writer: SchemaWriter | None = None
        self._readers: LRUCache[int | str, SchemaReader] = LRUCache(config.schemas_cache_size)
        self._prefix = lru_cache(config.schemas_cache_size)(self._asked_prefix)
        self._latest_writers: LRUCache[tuple[SchemaWriter, RegisteredSchema], SchemaWriter]
        self._latest_writers = LRUCache(config.schemas_cache_size)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the number of the schema and the value; None, of whatever schema, is a tombstone."""
        if value is None:
            if schema is not None and not schema.optional and not schema.has_default:
                raise DataError(f"null, but the schema {schema.name or schema.type} is not optional")
            return None
        writer = self._writers.get(schema) if schema is not None else self._writer_without_schema()
        if self.config.use_latest_version:
            return self._written_by_latest(topic, schema, writer, value)
        return self._prefix(topic, writer) + writer.write(value)

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return what the bytes say by the schema whose number they begin with, or whose GUID is in a header."""
        if data is None:
            return NO_VALUE
        named = id_from_headers(headers, is_key=self._is_key) if headers else None
        if named is None:
            schema_id, start = read_id(data)
            indexes = None
        else:
            schema_id, end = read_id(named)
            start, indexes = 0, named[end:]
        try:
            reader = self._readers[schema_id]  # faster than `get`
        except KeyError:
            reader = self._readers[schema_id] = self._reader(topic, schema_id)
        return reader.read(data, start, indexes)

    def close(self) -> None:
        """Close the connections to the registry."""
        self._registry.close()

    @abstractmethod
    def writer(self, schema: Schema | None) -> SchemaWriter:
        """Return what writes values of a schema; None: values that have none. Raises DataError."""

    @abstractmethod
    def latest_writer(self, schema: Schema | None, latest: RegisteredSchema) -> SchemaWriter:
        """Return what writes values of a schema by another one, that of the registry. Raises DataError."""

    @abstractmethod
    def reader(self, registered: RegisteredSchema) -> SchemaReader:
        """Return what reads values of a schema of the registry. Raises DataError."""

    def references(self, registered: RegisteredSchema) -> list[tuple[str, RegisteredSchema]]:
        """Return the schemas that one uses, by the names it has for them, each before those that use it."""
        return self._registry.with_references(registered)

    def _reader(self, topic: str, schema_id: int | str) -> SchemaReader:
        subject = None  # With the other strategies it has the schema's name in it, which is still unknown.
        if self._strategy is SubjectNameStrategy.TOPIC:
            subject = subject_name(self._strategy, topic, is_key=self._is_key, record_name=None)
        return self.reader(self._registry.schema(schema_id, subject=subject))

    def _writer_without_schema(self) -> SchemaWriter:
        if self._schemaless_writer is None:
            self._schemaless_writer = self.writer(None)
        return self._schemaless_writer

    def _asked_prefix(self, topic: str, writer: SchemaWriter) -> bytes:
        subject = self._subject(topic, writer)
        find = self._registry.register if self.config.auto_register else self._registry.look_up
        return write_id(find(subject, writer.registered))

    def _written_by_latest(self, topic: str, schema: Schema | None, writer: SchemaWriter, value: Any) -> bytes:
        latest = self._registry.latest(self._subject(topic, writer))
        by_latest = self._latest_writers.get((writer, latest))
        if by_latest is None:
            by_latest = self._latest_writers[writer, latest] = self.latest_writer(schema, latest)
        return write_id(latest.id) + by_latest.write(value)

    def _subject(self, topic: str, writer: SchemaWriter) -> str:
        return subject_name(self._strategy, topic, is_key=self._is_key, record_name=writer.record_name)
