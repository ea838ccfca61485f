"""What a format is, and whether one makes sense. Pure.

A format says how the bytes of keys or of values are read and written. All that is wrong with one is found when it is
made; what only Spark can tell, whether columns written as DDL parse, when it is used.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.formats.avro_types import avro_type
from ottla_spark.formats.errors import UnusableFormat

JSON = "json"
AVRO = "avro"
STRING = "string"
BYTES = "bytes"
NAMES = (JSON, AVRO, STRING, BYTES)

FAIL = "fail"
NULL = "null"
DROP = "drop"
BAD_RECORDS = (FAIL, NULL, DROP)

SAMPLE_ROWS_MAX = 100_000
"""More records than that are not looked at to find a schema."""

RESERVED = ("_key", "_topic", "_partition", "_offset", "_timestamp", "_headers")
"""Columns beside the value's; every name that begins as they do is kept for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How keys or values are read and written.

    Attributes:
        name: json, avro, string (UTF-8 text) or bytes.
        schema: of json, columns as DDL (`carrier STRING, dep_delay DOUBLE`); of avro, an Avro schema as JSON text.
            Empty: it is inferred from records, asked of the registry, or, in writing, made from the columns.
        sample_rows: how many records are looked at to infer a schema.
        registry_url: of avro: the records are framed as Confluent's serializers do it, and this Schema Registry has
            the schemas they were written with; `schema` is what they are read as. User and password may be in it.
        bad_records: what happens to a record that does not fit: `fail` fails the query, `null` makes its columns
            null, `drop` leaves it out.

    Raises:
        InvalidConfig: something is wrong; each problem's key is one of the attributes above.
    """

    name: str
    schema: str = ""
    sample_rows: int = 1000
    registry_url: str = ""
    bad_records: str = FAIL

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise InvalidConfig(problems)

    @property
    def needs_schema(self) -> bool:
        """Whether records can only be read once a schema is found."""
        return self.name in (JSON, AVRO) and not self.schema

    def _problems(self) -> Iterator[Problem]:
        if self.name not in NAMES:
            yield Problem("name", f"{self.name!r} is no format: one of {', '.join(NAMES)}")
        if self.bad_records not in BAD_RECORDS:
            yield Problem("bad_records", f"{self.bad_records!r} is none of {', '.join(BAD_RECORDS)}")
        if not 1 <= self.sample_rows <= SAMPLE_ROWS_MAX:
            yield Problem("sample_rows", f"{self.sample_rows} is not between 1 and {SAMPLE_ROWS_MAX}")
        if self.schema and self.name in (STRING, BYTES):
            yield Problem("schema", f"the format {self.name} has none: leave it out, or choose json or avro")
        yield from self._registry_problems()
        if self.schema and self.name == AVRO:
            try:
                avro_type(self.schema)
            except UnusableFormat as error:
                yield Problem("schema", str(error))

    def _registry_problems(self) -> Iterator[Problem]:
        if not self.registry_url:
            return
        if self.name in NAMES and self.name != AVRO:
            yield Problem("registry_url", f"the format {self.name} uses none, only avro does")
        try:
            parts = urlsplit(self.registry_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        except ValueError:
            usable = False
        if not usable:
            # The address itself is not shown: there may be a password in it.
            yield Problem("registry_url", "is no address such as http://localhost:8081")


def check_columns(names: Iterable[str], *, where: str, case_sensitive: bool = False) -> None:
    """Check that a value's columns can stand beside those of the record.

    Args:
        names: of the columns.
        where: whose they are, for the message.
        case_sensitive: whether Spark tells `a` from `A`.

    Raises:
        UnusableFormat: one has a name that is reserved, or two have the same.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.startswith("_"):
            raise UnusableFormat(
                f"{where} has a column {name}: names that begin with _ are kept for {', '.join(RESERVED)}; "
                "leave it out of the schema, or read the topic as string and take the values apart in SQL"
            )
        folded = name if case_sensitive else name.lower()
        if (known := seen.get(folded)) is not None:
            differ = "is there twice" if known == name else f"and {known} are the same to Spark"
            raise UnusableFormat(
                f"{where}: the column {name} {differ}; leave one out, or set spark.sql.caseSensitive to true"
            )
        seen[folded] = name
