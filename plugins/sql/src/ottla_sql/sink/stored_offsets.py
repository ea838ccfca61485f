"""Offsets in the target: how far the sink has come, kept in the transactions of the rows themselves.

Each row of the table is a partition of a topic for a connector, with the offset behind the last record written. A
task changes it only from the value that it knows: if that is another by now, another task has taken the partition
over, and nothing of the transaction may take effect.

With the offset goes the id of the topic, where the cluster gives topics ids: a topic that was created anew begins
with offset 0 again, and what was stored says nothing of it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from ottla_sdk import ChangePermit, FatalError, TopicPartition
from ottla_sql.connection import described, is_transient
from ottla_sql.sink.tables import table_name

NAME_LENGTH_MAX = 255
TOPIC_ID_LENGTH_MAX = 36
# Names differ by case, which these databases do not see unless they are told to.
_NAME = (
    String(NAME_LENGTH_MAX)
    .with_variant(mysql.VARCHAR(NAME_LENGTH_MAX, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    .with_variant(String(NAME_LENGTH_MAX, collation="Latin1_General_BIN2"), "mssql")
)

log = logging.getLogger(__name__)


class OffsetMoved(Exception):
    """Another task has written records of a partition in the meantime."""


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """How far a partition is written.

    Attributes:
        next_offset: the offset behind the last record written.
        topic_id: the id of the topic that it was; None if it is not known.
    """

    next_offset: int
    topic_id: str | None = None


class StoredOffsets:
    """The offsets of one connector.

    Args:
        engine: the database.
        name: the table, ``SCHEMA.TABLE`` or ``TABLE``.
        connector: the connector's name.
    """

    def __init__(self, engine: Engine, name: str, connector: str) -> None:
        self._engine = engine
        self._connector = connector
        place = table_name(name, "", engine.dialect.name)
        self._table = Table(
            place.name,
            MetaData(),
            Column("connector", _NAME, primary_key=True),
            Column("topic", _NAME, primary_key=True),
            Column("partition", Integer, primary_key=True, autoincrement=False),
            Column("next_offset", BigInteger, nullable=False),
            Column("topic_id", String(TOPIC_ID_LENGTH_MAX), nullable=True),
            schema=place.schema,
        )
        self._exists = False
        self._has_topic_ids = True

    def read(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, StoredOffset]:
        """Return how far partitions are written, for those of which any record is.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refuses, or cannot be reached.
            FatalError: the table takes this connector for another one.
        """
        self._create()
        topic_id = self._table.c.topic_id if self._has_topic_ids else sqlalchemy.null()
        found = self._rows(topic_id)
        return {partition: found[partition] for partition in partitions if partition in found}

    def all(self) -> dict[TopicPartition, int]:
        """Return how far each partition is written, and change nothing: none where there is no table yet.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refuses, or cannot be reached.
            FatalError: the table takes this connector for another one.
        """
        if not sqlalchemy.inspect(self._engine).has_table(self._table.name, schema=self._table.schema):
            return {}
        return {place: stored.next_offset for place, stored in self._rows(sqlalchemy.null()).items()}

    def _rows(self, topic_id: sqlalchemy.ColumnElement[Any]) -> dict[TopicPartition, StoredOffset]:
        table = self._table.c
        statement = sqlalchemy.select(
            table.connector, table.topic, table.partition, table.next_offset, topic_id
        ).where(table.connector == self._connector)
        with self._engine.connect() as connection:
            rows = connection.execute(statement).all()
        if others := sorted({row[0] for row in rows} - {self._connector}):
            raise FatalError(
                f"the table {self._table.name} takes the connector {self._connector} for {others[0]}, whose offsets "
                "it holds: have its columns connector and topic compared byte by byte, by a binary collation"
            )
        return {
            TopicPartition(topic, number): StoredOffset(offset, found_id)
            for _, topic, number, offset, found_id in rows
        }

    def move(
        self, connection: Connection, partition: TopicPartition, known: StoredOffset | None, new: StoredOffset
    ) -> None:
        """Set a partition's offset, in a transaction.

        Args:
            connection: in which the transaction is.
            partition: the partition.
            known: its offset before; None if it had none.
            new: the one behind the last record written.

        Raises:
            OffsetMoved: the offset is not the one that is known; roll the transaction back.
        """
        if known is None:
            row = {"connector": self._connector, **partition._asdict(), **self._values(new)}
            try:
                connection.execute(sqlalchemy.insert(self._table).values(row))
            except IntegrityError:
                raise OffsetMoved(f"{partition.topic}-{partition.partition}") from None
            return
        table = self._table.c
        as_known = [*self._is(partition), table.next_offset == known.next_offset]
        if self._has_topic_ids:
            as_known.append(table.topic_id == known.topic_id)  # IS NULL for None
        statement = sqlalchemy.update(self._table).where(*as_known).values(self._values(new))
        if connection.execute(statement).rowcount != 1:
            raise OffsetMoved(f"{partition.topic}-{partition.partition}")

    def set(self, offsets: Mapping[TopicPartition, int | None], permit: ChangePermit) -> None:
        """Set offsets whatever they were; None removes one.

        The permit is asked for between the last write and the commit. While it holds, nobody else has begun to set
        them. Whoever does so later has to wait for what this transaction has locked, so this one comes first, also if
        this process is paused before it commits, or the commit is long on its way.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refuses, or cannot be reached.
            OffsetMoved: somebody else sets them; nothing was changed.
            NotPermitted: by the permit; nothing was changed.
        """
        self._create()
        with self._engine.begin() as connection:
            for partition, offset in offsets.items():
                connection.execute(sqlalchemy.delete(self._table).where(*self._is(partition)))
                if offset is not None:
                    self.move(connection, partition, None, StoredOffset(offset))
            permit.require()

    def _values(self, stored: StoredOffset) -> dict[str, object]:
        values: dict[str, object] = {"next_offset": stored.next_offset}
        return {**values, "topic_id": stored.topic_id} if self._has_topic_ids else values

    def _is(self, partition: TopicPartition) -> tuple[sqlalchemy.ColumnElement[bool], ...]:
        table = self._table.c
        return (
            table.connector == self._connector,
            table.topic == partition.topic,
            table.partition == partition.partition,
        )

    def _create(self) -> None:
        if self._exists:
            return
        try:
            self._table.create(self._engine, checkfirst=True)
        except SQLAlchemyError as error:
            if is_transient(error) or not sqlalchemy.inspect(self._engine).has_table(
                self._table.name, schema=self._table.schema
            ):
                raise
        self._has_topic_ids = self._with_topic_ids()
        self._exists = True

    def _with_topic_ids(self) -> bool:
        """Add the column for topic ids to a table that was made without one; return whether it is there."""
        if self._finds_topic_ids():
            return True
        preparer = self._engine.dialect.identifier_preparer
        definition = CreateColumn(self._table.c.topic_id).compile(dialect=self._engine.dialect)
        try:
            with self._engine.begin() as connection:
                connection.exec_driver_sql(f"ALTER TABLE {preparer.format_table(self._table)} ADD {definition}")
        except SQLAlchemyError as error:
            if is_transient(error):
                raise
            if not self._finds_topic_ids():
                log.warning(
                    "a topic that is created anew cannot be noticed: table %s has no column topic_id, and none can "
                    "be added: %s",
                    self._table.name,
                    described(error),
                )
                return False
        return True

    def _finds_topic_ids(self) -> bool:
        columns = sqlalchemy.inspect(self._engine).get_columns(self._table.name, schema=self._table.schema)
        return any(column["name"].lower() == "topic_id" for column in columns)
