"""What `ottla-query.json` says about a checkpoint: whose it is, what its queries read and write, what was inferred.

Pure: `CheckpointFolder` reads and writes the file. Spark would go on with another query's offsets and state without a
word, or fail in words that only its developers understand; so this is compared before Spark sees the folder.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ottla_sdk import FatalError
from ottla_spark.job.plan import JobPlan, TopicWrite

FILE_NAME = "ottla-query.json"
VERSION = 1
_TOPIC = "topic "


class ForeignCheckpoint(FatalError):
    """A checkpoint is that of another query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """What is known about a checkpoint.

    Attributes:
        connector: whose it is.
        tables: what is read as a stream, by the table's name.
        outputs: what is written, by the output's name.
        schemas: what was inferred at the first start: a schema by table and part (key, value, rows).
        begun: outputs without a stream that have begun to be written, and whether there was nothing there before.
        done: outputs without a stream that are written.
        exactly_once_since: the first batch of each output that was written exactly once.
        writers: names under which outputs without a stream are written exactly once.
    """

    connector: str
    tables: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    schemas: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    begun: Mapping[str, bool] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    exactly_once_since: Mapping[str, int] = field(default_factory=dict)
    writers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: JobPlan) -> Self:
        """Return what a plan would write into a new checkpoint."""
        return cls(
            connector=plan.connector,
            tables={table.name: str(table.reading) for table in plan.tables if table.streaming},
            outputs={output.name: str(output.writing) for output in plan.outputs},
        )

    @classmethod
    def from_json(cls, text: str, location: str) -> Self:
        """Return what a file says.

        Raises:
            ForeignCheckpoint: it is not one of ours.
        """
        try:
            document = json.loads(text)
            version = document.pop("version")
            document["done"] = tuple(document.get("done", ()))
            record = cls(**document)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ForeignCheckpoint(
                f"{location}/{FILE_NAME} cannot be read; it was not written by a connector"
            ) from None
        if version != VERSION:
            raise ForeignCheckpoint(f"{location}/{FILE_NAME} has the version {version}, this is for {VERSION}")
        return record

    def to_json(self) -> str:
        """Return the file's text."""
        document: dict[str, Any] = {
            "version": VERSION,
            "connector": self.connector,
            "tables": dict(self.tables),
            "outputs": dict(self.outputs),
            "schemas": {table: dict(parts) for table, parts in self.schemas.items()},
            "begun": dict(self.begun),
            "done": list(self.done),
        }
        # Only where they are needed: a former release reads no file that has them.
        if self.exactly_once_since:
            document["exactly_once_since"] = dict(self.exactly_once_since)
        if self.writers:
            document["writers"] = dict(self.writers)
        return json.dumps(document, indent=2) + "\n"

    def continued(self, plan: JobPlan) -> Self:
        """Return the record of a plan that goes on with this checkpoint; what it has no more is remembered.

        Raises:
            ForeignCheckpoint: it is another query's.
        """
        new = type(self).of(plan)
        if differences := list(self._differences(new, plan)):
            raise ForeignCheckpoint(
                f"the checkpoint {plan.checkpoint_location} is that of another query: {'; '.join(differences)}. Set "
                "checkpoint.location to another folder; to begin anew in this one, delete it first"
            )
        return replace(self, tables={**self.tables, **new.tables}, outputs={**self.outputs, **new.outputs})

    def with_schemas(self, schemas: Mapping[str, Mapping[str, str]]) -> Self:
        """Return it with the schemas that were inferred."""
        return replace(self, schemas=schemas)

    def with_begun(self, output: str, *, fresh: bool) -> Self:
        """Return it with an output that begins to be written."""
        return replace(self, begun={**self.begun, output: fresh})

    def with_done(self, output: str) -> Self:
        """Return it with an output that is written."""
        return replace(self, done=(*self.done, output))

    def with_exactly_once(self, outputs: Mapping[str, int]) -> Self:
        """Return it with the outputs whose batches are written exactly once.

        Args:
            outputs: with the first batch of each that is, if it begins now; what was noted before remains.
        """
        return replace(
            self,
            exactly_once_since={name: self.exactly_once_since.get(name, since) for name, since in outputs.items()},
        )

    def with_writer(self, output: str, name: str) -> Self:
        """Return it with the name under which an output without a stream is written."""
        return replace(self, writers={**self.writers, output: name})

    def _differences(self, new: Self, plan: JobPlan) -> Iterator[str]:
        if self.connector != new.connector:
            yield f"it belongs to the connector {self.connector} ({self}), this is {new.connector} ({new})"
            return
        for name in self.tables.keys() & new.tables.keys():
            if self.tables[name] != new.tables[name]:
                yield f"there the table {name} reads {self.tables[name]}, here {new.tables[name]}"
        for output in plan.outputs:
            # A topic may follow on another, and on files: it has the new rows. Files would lack the old.
            before = self.outputs.get(output.name)
            if before not in (None, new.outputs[output.name]) and not isinstance(output.writing, TopicWrite):
                yield f"there the output {output.name} writes {before}, here {new.outputs[output.name]}"

    def __str__(self) -> str:
        """Return what it reads and writes, for people."""
        read = [f"{name} reads {what}" for name, what in self.tables.items()]
        written = [f"{name} writes {what}" for name, what in self.outputs.items()]
        return ", ".join((*read, *written))
