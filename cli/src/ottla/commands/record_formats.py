"""What `ottla consume` and `ottla produce` share: what the bytes of keys and values are, and the schema registry."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.kafka_client import parse_assignments
from ottla.profiles.profile_choice import VARIABLES, registry_settings, typed_settings
from ottla.registry_url import registry_url
from ottla.typed_secrets import warn_of_secrets
from ottla_operations.errors import UsageProblem
from ottla_operations.records.field_codec import OF_REGISTRY, FieldCodec, FieldFormat, plain_codec

if TYPE_CHECKING:
    from ottla_operations.schemas.registry import Registry

_KINDS = "text, raw, base64, hex, json, int16/32/64, float32/64; avro, json-schema, protobuf or schema (any of these)"

KeyFormat = Annotated[
    FieldFormat | None,
    typer.Option(metavar="FORMAT", show_default="text, or by the registry", help=f"What keys are: {_KINDS}."),
]
ValueFormat = Annotated[
    FieldFormat | None,
    typer.Option(metavar="FORMAT", show_default="text, or by the registry", help="What values are; as --key-format."),
]
SchemaRegistry = Annotated[
    str | None,
    typer.Option(
        envvar=VARIABLES["schema_registry"],
        metavar="[https://]HOST:PORT[,…]",
        help="Decode and encode with the schemas of this registry (Confluent's API).",
    ),
]
RegistryProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--registry-property",
        metavar="KEY=VALUE",
        callback=warn_of_secrets,
        help="Setting of the registry's client, such as 'basic.auth.user.info=${env:LOGIN}'; repeatable.",
    ),
]


class Formats:
    """The formats that were asked for, and the registry that they may need.

    Raises:
        UsageProblem: a format needs a registry, and none is named, or what names it is no address.
    """

    def __init__(
        self,
        key: FieldFormat | None,
        value: FieldFormat | None,
        url: str | None,
        registry_properties: Sequence[str] | None,
    ) -> None:
        self._formats = {"key": key, "value": value}
        self._url = None if url is None else registry_url(url)
        self._properties = parse_assignments(registry_properties or (), "--registry-property")
        self._made: Registry | None = None
        for field, format_ in self._formats.items():
            if format_ in OF_REGISTRY and self._url is None:
                raise UsageProblem(f"--{field}-format {format_} needs --schema-registry HOST:PORT")
        if self._properties and self._url is None:
            raise UsageProblem("--registry-property is for --schema-registry")

    def for_reading(self, field: str) -> FieldCodec:
        """Return the codec that shows a field, ``key`` or ``value``."""
        format_ = self._formats[field]
        if format_ is None and self._url is not None:
            from ottla_operations.schemas.schema_codec import DetectingCodec  # noqa: PLC0415 - needed with a registry only

            return DetectingCodec(self._registry)
        if format_ in OF_REGISTRY:
            from ottla_operations.schemas.schema_codec import SchemaCodec  # noqa: PLC0415

            return SchemaCodec(self._registry(), format_)
        return plain_codec(format_ or FieldFormat.TEXT)

    def for_publishing(self, field: str, topic: str) -> FieldCodec:
        """Return the codec for what is published to a topic.

        Without a format it is that of the registry if this has the topic's subject, so that nothing is published as
        text by mistake where everything else has a schema.

        Raises:
            OperationError: the registry cannot be asked, or lacks a subject that is needed.
        """
        format_ = self._formats[field]
        if format_ in OF_REGISTRY or (format_ is None and self._url is not None):
            from ottla_operations.schemas.schema_codec import SchemaCodec  # noqa: PLC0415

            subject = f"{topic}-{field}"
            if format_ is not None or self._registry().newest(subject) is not None:
                return SchemaCodec(self._registry(), format_ or FieldFormat.SCHEMA, subject)
        return plain_codec(format_ or FieldFormat.TEXT)

    def _registry(self) -> "Registry":
        if self._made is None:
            from ottla_operations.schemas.registry import Registry  # noqa: PLC0415

            assert self._url is not None
            typed = typed_settings(self._properties, "--registry-property")
            self._made = Registry(self._url, {**registry_settings(self._url), **typed})
        return self._made
