"""The registry's schemas, with what was asked for before remembered.

A schema's number, once given, stands for the same schema for ever, and a schema registered under a subject stays
there; so both may be remembered for as long as there is room. Only the latest version of a subject changes.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from cachetools import LRUCache, TTLCache

from ottla_schema_registry.registry.http_transport import HttpTransport
from ottla_sdk import DataError

AVRO = "AVRO"
REFERENCES_MAX = 1000
"""More schemas than that behind one are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A schema that another one uses.

    Attributes:
        name: what the other one calls it: an Avro type, a JSON address, an imported file.
        subject: its subject.
        version: its version there.
    """

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        """Return the form it has in requests."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema as the registry has it.

    Attributes:
        text: the schema; a Protobuf schema may be the base64 of a FileDescriptorProto.
        kind: AVRO, JSON or PROTOBUF.
        references: the schemas it uses.
        id: its number; 0 where it was asked for by number or GUID.
    """

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    id: int = 0


class RegistryClient:
    """Asks the registry.

    Args:
        transport: sends the requests.
        cache_size: how much is remembered of each kind.
        normalize: whether the registry shall overlook differences that do not matter.
        latest_ttl_s: how long the latest version of a subject is taken for it; None: for ever.
        clock: the time in seconds.
    """

    def __init__(
        self,
        transport: HttpTransport,
        *,
        cache_size: int,
        normalize: bool,
        latest_ttl_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._query = {"normalize": "true"} if normalize else {}
        self._by_id: LRUCache[int | str, RegisteredSchema] = LRUCache(cache_size)
        self._ids: LRUCache[tuple[str, RegisteredSchema], int] = LRUCache(cache_size)
        self._latest: TTLCache[str, RegisteredSchema]
        self._latest = TTLCache(cache_size, math.inf if latest_ttl_s is None else latest_ttl_s, clock)
        self._version = lru_cache(cache_size)(self._ask_for_version)

    def schema(self, schema_id: int | str, *, subject: str | None) -> RegisteredSchema:
        """Return a schema by its number or GUID.

        Args:
            schema_id: the number, or the GUID.
            subject: where it is likely to be, if that is known; registries with several contexts want to know.

        Raises:
            RegistryRefusal: there is no such schema.
        """
        if schema_id not in self._by_id:
            self._by_id[schema_id] = self._ask_for_schema(schema_id, subject)
        return self._by_id[schema_id]

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the number of a schema, which is registered if it is new.

        Raises:
            RegistryRefusal: it is not compatible with earlier ones, or no valid schema.
        """
        return self._number(subject, schema, f"/subjects/{quote(subject, safe='')}/versions")

    def look_up(self, subject: str, schema: RegisteredSchema) -> int:
        """Return the number of a schema that is registered.

        Raises:
            RegistryRefusal: it is not.
        """
        return self._number(subject, schema, f"/subjects/{quote(subject, safe='')}")

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema of a subject.

        Raises:
            RegistryRefusal: there is no such subject.
        """
        found = self._latest.get(subject)
        if found is None:
            found = self._latest[subject] = self._ask_for_version(subject, "latest")
        return found

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return the schema of a subject's version."""
        return self._version(subject, str(version))

    def with_references(self, schema: RegisteredSchema) -> list[tuple[str, RegisteredSchema]]:
        """Return all schemas that one uses, by the names they are used under, each before those that use it.

        Raises:
            DataError: there are too many.
        """
        found: dict[str, RegisteredSchema] = {}
        self._collect(schema, found, set())
        return list(found.items())

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _collect(
        self, schema: RegisteredSchema, found: dict[str, RegisteredSchema], under_way: set[Reference]
    ) -> None:
        for each in schema.references:
            if each.name in found or each in under_way:
                continue
            if len(under_way) >= REFERENCES_MAX:
                raise DataError(f"a schema with more than {REFERENCES_MAX} others behind it")
            under_way.add(each)
            referred = self.version(each.subject, each.version)
            self._collect(referred, found, under_way)
            found[each.name] = referred

    def _ask_for_schema(self, schema_id: int | str, subject: str | None) -> RegisteredSchema:
        # Registries that know the format give the base64 of a FileDescriptorProto for it, others ignore it.
        query = {"format": "serialized"} | ({} if subject is None else {"subject": subject})
        by = f"ids/{schema_id}" if isinstance(schema_id, int) else f"guids/{schema_id}"
        return _parsed(self._transport.request("GET", f"/schemas/{by}", query=query))

    def _ask_for_version(self, subject: str, version: str) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return _parsed(self._transport.request("GET", path, query={"format": "serialized"}))

    def _number(self, subject: str, schema: RegisteredSchema, path: str) -> int:
        if (subject, schema) not in self._ids:
            self._ids[subject, schema] = self._post(path, schema)
        return self._ids[subject, schema]

    def _post(self, path: str, schema: RegisteredSchema) -> int:
        body: dict[str, Any] = {"schema": schema.text}
        if schema.kind != AVRO:
            body["schemaType"] = schema.kind
        if schema.references:
            body["references"] = [each.as_json() for each in schema.references]
        answer = self._transport.request("POST", path, query=self._query, body=body)
        if not isinstance(answer, dict) or not isinstance(answer.get("id"), int):
            raise DataError(f"the schema registry answers without a number: {answer!r:.200}")
        schema_id: int = answer["id"]
        return schema_id


def _parsed(answer: Any) -> RegisteredSchema:
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise DataError(f"the schema registry answers without a schema: {answer!r:.200}")
    return RegisteredSchema(
        text=answer["schema"],
        kind=answer.get("schemaType") or AVRO,
        references=tuple(
            Reference(name=each["name"], subject=each["subject"], version=each["version"])
            for each in answer.get("references") or ()
        ),
        id=answer.get("id") or 0,
    )
