"""Offsets in the target: how far the sink has come, kept in the transactions of the rows themselves.

Each row of the table is a partition of a topic for a connector, with the offset behind the last record written. A
task changes it only from the value that it knows: if that is another by now, another task has taken the partition
over, and nothing of the transaction may take effect.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ottla_sdk import TopicPartition
from ottla_sql.connection import is_transient
from ottla_sql.sink.tables import table_name

NAME_LENGTH_MAX = 255


class OffsetMoved(Exception):
    """Another task has written records of a partition in the meantime."""


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
            Column("connector", String(NAME_LENGTH_MAX), primary_key=True),
            Column("topic", String(NAME_LENGTH_MAX), primary_key=True),
            Column("partition", Integer, primary_key=True, autoincrement=False),
            Column("next_offset", BigInteger, nullable=False),
            schema=place.schema,
        )
        self._exists = False

    def read(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset behind the last record written, for those partitions that have one.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refuses, or cannot be reached.
        """
        self._create()
        table = self._table.c
        statement = sqlalchemy.select(table.topic, table.partition, table.next_offset).where(
            table.connector == self._connector
        )
        with self._engine.connect() as connection:
            found = {TopicPartition(topic, number): offset for topic, number, offset in connection.execute(statement)}
        return {partition: found[partition] for partition in partitions if partition in found}

    def move(self, connection: Connection, partition: TopicPartition, known: int | None, offset: int) -> None:
        """Set a partition's offset, in a transaction.

        Args:
            connection: in which the transaction is.
            partition: the partition.
            known: its offset before; None if it had none.
            offset: the one behind the last record written.

        Raises:
            OffsetMoved: the offset is not the one that is known; roll the transaction back.
        """
        if known is None:
            row = {"connector": self._connector, "next_offset": offset, **partition._asdict()}
            try:
                connection.execute(sqlalchemy.insert(self._table).values(row))
            except IntegrityError:
                raise OffsetMoved(f"{partition.topic}-{partition.partition}") from None
            return
        statement = (
            sqlalchemy.update(self._table)
            .where(*self._is(partition), self._table.c.next_offset == known)
            .values(next_offset=offset)
        )
        if connection.execute(statement).rowcount != 1:
            raise OffsetMoved(f"{partition.topic}-{partition.partition}")

    def set(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set offsets whatever they were; None removes one.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refuses, or cannot be reached.
        """
        self._create()
        with self._engine.begin() as connection:
            for partition, offset in offsets.items():
                connection.execute(sqlalchemy.delete(self._table).where(*self._is(partition)))
                if offset is not None:
                    self.move(connection, partition, None, offset)

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
        self._exists = True
