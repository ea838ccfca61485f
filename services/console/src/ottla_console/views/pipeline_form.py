"""A query over a topic as a pipeline: the form, the statement for `ottla sql`, and the connector that it makes. Pure.

The query stays as it is typed: the topic is the table `records` for Spark, too, and quoted names are names. The
connector's settings are those that `ottla sql` makes of the statement, but for the topic's columns, which Spark finds
out when it starts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla_operations.queries.query_answer import SQL_CHARACTERS_MAX

PLUGIN: Final = "ottla_spark.SparkPipeline"
TABLE: Final = "records"
OWN_CHECKPOINT_KEY: Final = "spark.ottla.checkpoint"
MODES: Final[Mapping[str, str]] = {
    "append": "new rows alone, each once",
    "update": "rows that have changed",
    "complete": "all rows, each time",
}
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
TEXT_CHARACTERS_MAX: Final = 1000
_NO_OUTPUT_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_QUERY: Final = re.compile(
    r"(?:\s|--[^\r\n\\]*\r?\n|/\*[^*/]*\*/|\()*+(?:SELECT|WITH|FROM|VALUES|TABLE)\b", re.IGNORECASE | re.ASCII
)
"""A text that begins so is one query for workers, who take several statements only if views come first. Comments that
Spark could see end elsewhere are not passed over."""
_GROUPS: Final = re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE)


class BadPipeline(Exception):
    """A field of the form cannot be used; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineForm:
    """What is to be created.

    Attributes:
        name: of the pipeline, which is a connector.
        source: the topic that is read.
        target: the topic that is written.
        mode: how results become records, one of `MODES`.
        key_columns: columns that make the key; none for records without one.
        checkpoint: a folder or URI of the pipeline's own.
        sql: one SELECT over `records`.
    """

    name: str
    source: str
    target: str
    mode: str
    key_columns: tuple[str, ...]
    checkpoint: str
    sql: str

    def config(self) -> dict[str, str]:
        """Return the settings of the connector."""
        output = _NO_OUTPUT_NAME.sub("_", self.name)
        key = {f"outputs.{output}.key.columns": ",".join(self.key_columns)} if self.key_columns else {}
        # By which DROP PIPELINE knows that the folder is this pipeline's alone.
        is_own = re.fullmatch(rf"{re.escape(self.name)}-[0-9a-f]{{8}}", self.checkpoint.rpartition("/")[2])
        own = {OWN_CHECKPOINT_KEY: self.checkpoint} if is_own else {}
        return {
            "name": self.name,
            "connector.class": PLUGIN,
            "tasks.max": "1",
            "checkpoint.location": self.checkpoint,
            "tables": TABLE,
            f"tables.{TABLE}.topic": self.source,
            "sql": self.sql,
            "outputs": output,
            f"outputs.{output}.topic": self.target,
            **key,
            f"outputs.{output}.mode": self.mode,
            # -1 is the broker's own default.
            "topic.creation.default.partitions": "-1",
            "topic.creation.default.replication.factor": "-1",
            "spark.sql.ansi.doubleQuotedIdentifiers": "true",
            **own,
        }

    def statement(self) -> str:
        """Return what does the same in `ottla sql`."""
        settings = {"topic": self.target, "mode": self.mode, "checkpoint": self.checkpoint}
        if self.key_columns:
            settings["key"] = ",".join(self.key_columns)
        # After a comment the semicolon would be a part of it.
        end = "\n;" if "--" in self.sql.rpartition("\n")[2] else ";"
        said = ", ".join(f"{key} = {_text(value)}" for key, value in settings.items())
        return (
            f"SET spark.sql.ansi.doubleQuotedIdentifiers = true;\n"
            f"CREATE TABLE {TABLE} WITH (topic = {_text(self.source)});\n"
            f"CREATE PIPELINE {_name(self.name)} WITH ({said}) AS\n{self.sql}{end}"
        )


def suggested(given: Mapping[str, str], source: str, folder: str | None, drawn: str) -> dict[str, str]:
    """Return the fields of a form, with suggestions for those that are empty.

    Args:
        given: as the address has them.
        source: the topic.
        folder: below which checkpoints are; None where the settings do not say.
        drawn: hexadecimal digits by which the checkpoint differs from that of another pipeline of the name.
    """
    name = given.get("name", "").strip() or f"{source[:150]}_query"
    checkpoint = given.get("checkpoint", "").strip()
    if not checkpoint and folder is not None:
        checkpoint = f"{folder.rstrip('/')}/{name}-{drawn}"
    sql = given.get("q", "")
    return {
        "q": sql,
        "name": name,
        "target": given.get("target", "").strip() or name,
        "mode": given.get("mode", "") or ("update" if _GROUPS.search(sql) else "append"),
        "key": given.get("key", "").strip(),
        "checkpoint": checkpoint,
    }


def pipeline_form(given: Mapping[str, str], source: str) -> PipelineForm:
    """Return what a form asks for.

    Args:
        given: its fields.
        source: the topic that is read.

    Raises:
        BadPipeline: names the field.
    """
    fields = {name: given.get(name, "").strip() for name in ("name", "target", "mode", "key", "checkpoint")}
    for name, title in (("name", "Name"), ("target", "Target topic")):
        if NAME.fullmatch(fields[name]) is None:
            raise BadPipeline(f"{title}: letters, digits, '.', '_' and '-', at most 200")
    if fields["target"] == source:
        raise BadPipeline("Target topic: it is the topic that is read, so the pipeline would read what it writes")
    if fields["mode"] not in MODES:
        raise BadPipeline(f"Result: one of {', '.join(MODES)}")
    for name, title in (("checkpoint", "Checkpoint"), ("key", "Key columns")):
        if len(fields[name]) > TEXT_CHARACTERS_MAX or not fields[name].isprintable():
            raise BadPipeline(f"{title}: at most {TEXT_CHARACTERS_MAX:,} characters, on one line")
    if not fields["checkpoint"]:
        raise BadPipeline("Checkpoint: a folder of the pipeline's own that all workers see, or a URI")
    sql = given.get("q", "").strip().removesuffix(";").strip()
    if not sql or len(sql) > SQL_CHARACTERS_MAX or "\0" in sql:
        raise BadPipeline(f"Query: one SELECT over the table {TABLE}, of at most {SQL_CHARACTERS_MAX:,} characters")
    # A view could be of another topic, with fields that are masked for the user, or of the worker's files.
    if _QUERY.match(sql) is None:
        raise BadPipeline(f"Query: it has to be one SELECT over the table {TABLE}, with no other statement before it")
    return PipelineForm(
        name=fields["name"],
        source=source,
        target=fields["target"],
        mode=fields["mode"],
        key_columns=tuple(each.strip() for each in fields["key"].split(",") if each.strip()),
        checkpoint=fields["checkpoint"],
        sql=sql.replace("\r\n", "\n"),
    )


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name}`"
