"""What a Schema Registry says: schemas by number or subject, and numbers for new ones.

A schema's number stands for the same schema for ever, so each process, the driver and every Python worker of an
executor, asks once. Records are framed as Confluent's serializers do it: a zero, the number in four bytes, then the
record.
"""

import json
import time
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from fastavro.schema import parse_schema

from ottla_sdk import ConnectError, RetriableError
from ottla_spark.formats.errors import UnusableFormat

MAGIC = 0
FRAME_BYTES = 5
ATTEMPTS_MAX = 4
PAUSE_S = 0.25
"""Doubled with every attempt."""
TIMEOUT_S = 10.0
REFERENCES_MAX = 1000
REGISTRIES_MAX = 16
SCHEMAS_MAX = 10_000
"""How many schemas of a registry a process remembers."""

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)


class UnknownSchema(ConnectError):
    """The registry has no such schema or subject."""


class SchemaRegistry:
    """A registry at an address.

    Args:
        url: the address; user and password may be in it.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(url)
        self._shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._client = httpx.Client(timeout=TIMEOUT_S, trust_env=False, headers={"Accept": _CONTENT_TYPE})
        self.schema = lru_cache(maxsize=SCHEMAS_MAX)(self._schema)

    def latest(self, subject: str) -> str:
        """Return the text of a subject's latest schema.

        Raises:
            UnknownSchema: there is no such subject.
            UnusableFormat: it is no Avro schema, or the registry refuses.
            RetriableError: the registry cannot be reached.
        """
        return self._text(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest"), subject)

    def register(self, subject: str, text: str) -> int:
        """Return the number of a schema, which is registered under a subject if it is new there.

        Raises:
            UnusableFormat: the registry refuses it, since it is not compatible with the subject's earlier ones.
            RetriableError: the registry cannot be reached.
        """
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
        if not isinstance(answer.get("id"), int):
            raise UnusableFormat(f"the Schema Registry at {self._shown} gives no number for a schema of {subject}")
        number: int = answer["id"]
        return number

    def _schema(self, number: int) -> str:
        """Return the text of a schema; errors as of `latest`."""
        return self._text(self._ask("GET", f"/schemas/ids/{number}"), f"schema {number}")

    def _text(self, answer: dict[str, Any], what: str) -> str:
        kind = answer.get("schemaType") or "AVRO"
        if kind != "AVRO" or not isinstance(answer.get("schema"), str):
            raise UnusableFormat(f"{what} in the Schema Registry at {self._shown} is {kind}, not AVRO")
        if not answer.get("references"):
            return str(answer["schema"])
        known: dict[str, Any] = {}
        self._collect(answer, known, set())
        return json.dumps(_complete(json.loads(answer["schema"]), "", known))

    def _collect(self, answer: dict[str, Any], known: dict[str, Any], seen: set[tuple[str, int]]) -> None:
        """Learn the named types of all schemas that one refers to, each before those that use it."""
        for each in answer.get("references") or ():
            place = (each["subject"], each["version"])
            if place in seen:
                continue
            if len(seen) >= REFERENCES_MAX:
                raise UnusableFormat(f"a schema in the Schema Registry at {self._shown} has too many behind it")
            seen.add(place)
            referred = self._ask("GET", f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
            self._collect(referred, known, seen)
            parse_schema(json.loads(referred["schema"]), named_schemas=known)

    def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        problem = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                response = self._client.request(
                    method,
                    self._url + path,
                    json=body,
                    headers={} if body is None else {"Content-Type": _CONTENT_TYPE},
                )
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
                continue
            if response.status_code not in _MAY_PASS:
                return self._answer(response)
            problem = f"{response.status_code} {response.reason_phrase}"
        raise RetriableError(f"the Schema Registry at {self._shown} cannot be reached: {problem}")

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise UnusableFormat(f"what answers at {self._shown} is no Schema Registry: {response.status_code}")
        if response.is_success:
            return answer
        message = answer.get("message") or response.reason_phrase
        if response.status_code == httpx.codes.NOT_FOUND:
            raise UnknownSchema(f"the Schema Registry at {self._shown}: {message}")
        raise UnusableFormat(f"the Schema Registry at {self._shown} refuses: {response.status_code} {message}")


@lru_cache(maxsize=REGISTRIES_MAX)
def registry_at(url: str) -> SchemaRegistry:
    """Return the registry at an address, the same for all in this process, with what it remembers."""
    return SchemaRegistry(url)


def _complete(schema: Any, namespace: str, known: dict[str, Any]) -> Any:
    """Return a schema with the types that it only names, defined where each is named first."""
    if isinstance(schema, list):
        return [_complete(each, namespace, known) for each in schema]
    if isinstance(schema, str):
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        name = full if full in known else schema
        return _complete(known.pop(name), "", known) if name in known else schema
    if not isinstance(schema, dict):
        return schema
    namespace = (
        schema.get("namespace") or (schema["name"].rpartition(".")[0] if "name" in schema else "") or namespace
    )
    made = {key: each for key, each in schema.items() if not key.startswith("__")}
    for key in ("items", "values", "type"):
        if key in made and not (key == "type" and isinstance(made[key], str) and made[key] in _CONTAINERS):
            made[key] = _complete(made[key], namespace, known)
    if "fields" in made:
        made["fields"] = [{**each, "type": _complete(each["type"], namespace, known)} for each in made["fields"]]
    return made


_CONTAINERS = ("record", "error", "enum", "fixed", "array", "map")
