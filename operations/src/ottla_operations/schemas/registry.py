"""A schema registry, asked through confluent-kafka's client: schemas by id, and the newest one of a subject.

What cannot be asked ends the command; a schema that the registry does not have concerns one key or value.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ottla_operations.errors import OperationError
from ottla_operations.records.field_codec import BadField
from ottla_operations.url_redaction import without_login

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

EXTRA = "ottla[registry]"
TIMEOUT_S = 5.0
RETRIES = 1
RETRY_MS = 200
NOT_FOUND = 404
KIND_DEFAULT = "AVRO"
SCHEMAS_MAX = 1_000
"""Schemas that are kept; a topic rarely has more than a few."""


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as the registry has it.

    Attributes:
        id: its number.
        kind: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        references: by name the texts that it refers to, directly or through others; what one needs stands before it.
    """

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class Registry:
    """The schemas of one registry.

    Args:
        url: where it is; several with commas between.
        properties: of confluent-kafka's `SchemaRegistryClient`, such as ``basic.auth.user.info``.

    Raises:
        OperationError: its packages are not installed, or a property is wrong.
    """

    def __init__(self, url: str, properties: Mapping[str, str]) -> None:
        try:
            with warnings.catch_warnings():
                import authlib.deprecate  # noqa: F401, PLC0415 - before, as it asks for all its warnings to be shown

                warnings.simplefilter("ignore")  # what it warns of are its own dependencies
                from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415
        except ImportError as error:
            raise missing(error) from None
        settings: dict[str, Any] = {"timeout": TIMEOUT_S, "max.retries": RETRIES, "retries.max.wait.ms": RETRY_MS}
        self.url = without_login(url)  # for messages
        self._kept = lru_cache(SCHEMAS_MAX)(self._asked)
        try:
            self._client = SchemaRegistryClient({**settings, **properties, "url": url})
        except (ValueError, TypeError, OSError) as error:
            raise OperationError(f"schema registry {self.url}: {without_login(str(error))}") from None

    def schema(self, number: int) -> SchemaText:
        """Return the schema that has an id.

        Raises:
            BadField: there is none.
            OperationError: the registry cannot be asked.
        """
        return self._kept(number)

    def newest(self, subject: str) -> SchemaText | None:
        """Return a subject's newest schema; None if there is no such subject.

        Raises:
            BadField: something that it refers to is gone.
            OperationError: the registry cannot be asked.
        """
        found = self._ask(lambda: self._client.get_latest_version(subject))
        return None if found is None else self._with_references(found.schema_id, found.schema)

    def _asked(self, number: int) -> SchemaText:
        found: Schema | None = self._ask(lambda: self._client.get_schema(number))
        if found is None:
            raise BadField(f"has the schema id {number}, which {self.url} does not know")
        return self._with_references(number, found)

    def _with_references(self, number: int, schema: "Schema") -> SchemaText:
        return SchemaText(
            number, schema.schema_type or KIND_DEFAULT, schema.schema_str or "", self._references(schema)
        )

    def _references(self, schema: "Schema") -> dict[str, str]:
        found: dict[str, str] = {}
        for reference in schema.references or ():
            subject, version = str(reference.subject), int(reference.version or 0)
            registered = self._ask(partial(self._client.get_version, subject, version))
            if registered is None:
                raise BadField(f"has a schema that refers to {subject} {version}, which is gone")
            found |= self._references(registered.schema)
            found[str(reference.name)] = str(registered.schema.schema_str)
        return found

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Return the answer; None if there is no such thing."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415

        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND:
                return None
            raise OperationError(
                f"schema registry {self.url} refuses: {error.error_message} ({error.http_status_code})"
            ) from None
        except Exception as error:  # noqa: BLE001 - its HTTP library's, whichever that is
            reason = without_login(str(error)) or type(error).__name__
            raise OperationError(f"schema registry {self.url}: {reason}") from None


def missing(error: ImportError) -> OperationError:
    """Return what to say when a package of the extra is not installed."""
    return OperationError(f"a schema registry needs more packages ({error.name} is missing): pip install '{EXTRA}'")
