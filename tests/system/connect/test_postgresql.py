"""Tables of one PostgreSQL database go through topics into another, and are the same in the end.

Two tables change all the time: rows are added, changed and marked as deleted, which `ottla_sql.SoftDelete` turns into
tombstones. Meanwhile workers are killed (SIGKILL) and started again, with all their tasks. A third table comes from a
topic to which the test itself publishes, tombstones included, and whose sink keeps its offsets in the target.
"""

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters.broker_under_test import group_arguments
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.machine.postgres_server import PostgresServer, running_postgres

pytestmark = pytest.mark.slow

PARTITIONS = 2
TOPICS = ("shop-customers", "shop-orders", "prices")
CHANGES_BEFORE_KILL = 300
"""Made to the tables before the first worker is killed, between two kills, and behind the last."""
KEYS = 200
PRICE_CHANGES = 2000
CONVERGED_DEADLINE_S = 60.0
ONE_BROKER = {f"{topic}.storage.replication.factor": "1" for topic in ("config", "offset", "status")}
JSON_WITH_SCHEMAS = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "true",
}
JSON_WITHOUT_SCHEMAS = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
SOURCE_TABLES = """
CREATE TABLE customers (
    id serial PRIMARY KEY, name text NOT NULL, credit numeric(12,2), born date, notes jsonb,
    deleted boolean NOT NULL DEFAULT false, changed timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE orders (
    id bigserial PRIMARY KEY, customer int NOT NULL, total double precision, paid boolean, picture bytea,
    deleted boolean NOT NULL DEFAULT false, changed timestamptz(3) NOT NULL DEFAULT clock_timestamp()
);
"""
# Only the times' microseconds are lost on the way; what Connect calls a Timestamp has milliseconds.
SOURCE_CONTENT = {
    "customers": "id, name, credit, born, notes::text, date_trunc('milliseconds', changed AT TIME ZONE 'UTC')",
    "orders": "id, customer, total, paid, picture, date_trunc('milliseconds', changed AT TIME ZONE 'UTC')",
}
TARGET_CONTENT = {
    "customers": "id, name, credit, born, notes, changed",
    "orders": "id, customer, total, paid, picture, changed",
}


@dataclass(frozen=True)
class Scene:
    """What runs."""

    bootstrap: str
    connect: ConnectCluster
    source: str
    target: str


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path / "postgres") as server:
        yield server


@pytest.fixture
def scene(postgres: PostgresServer, tmp_path: Path) -> Iterator[Scene]:
    source, target = postgres.create_database("source"), postgres.create_database("target")
    with psycopg.connect(source) as connection:
        connection.execute(SOURCE_TABLES)
    arguments = [*group_arguments(), "--set", "group-coordinator:group.min.session.timeout.ms=1000"]
    with OttlaCluster(tmp_path / "cluster", arguments=arguments) as cluster:
        create_topics(cluster.bootstrap)
        with ConnectCluster(tmp_path, cluster.bootstrap, workers=2, settings=ONE_BROKER) as connect:
            yield Scene(cluster.bootstrap, connect, source, target)


def test_tables_are_the_same_in_the_end_though_workers_are_killed(scene: Scene) -> None:
    scene.connect.put_connector("shop", source_settings(scene.source))
    scene.connect.put_connector("copy", copy_settings(scene.target))
    scene.connect.put_connector("prices", price_settings(scene.target))
    prices = publish_prices(scene.bootstrap)
    with Changes(scene.source) as changes:
        for worker in scene.connect.workers:
            changes.wait_for(CHANGES_BEFORE_KILL)
            worker.kill()
            changes.wait_for(CHANGES_BEFORE_KILL)
            worker.start()
            worker.wait_until_ready()
        changes.wait_for(CHANGES_BEFORE_KILL)
    for table in SOURCE_CONTENT:
        wait_until_same(scene, table)
    eventually(
        lambda: rows(scene.target, "SELECT sku, price FROM prices") == sorted(prices.items()),
        "the prices are those published last",
        within_s=CONVERGED_DEADLINE_S,
    )
    assert changes.deletes > 0
    states = scene.connect.states("shop") | scene.connect.states("copy") | scene.connect.states("prices")
    assert set(states.values()) == {"RUNNING"}, states


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, PARTITIONS) for topic in TOPICS])
    for future in made.values():
        future.result()


def source_settings(url: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_sql.SqlSource",
        "tasks.max": "2",
        "connection.url": url,
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "changed",
        "topic.prefix": "shop-",
        "poll.interval.ms": "50",
        "batch.max.rows": "20",
        "key.mode": "primary_key",
        "transforms": "deleted",
        "transforms.deleted.type": "ottla_sql.SoftDelete",
        "transforms.deleted.field": "deleted",
        **JSON_WITH_SCHEMAS,
    }


def copy_settings(url: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_sql.SqlSink",
        "tasks.max": "2",
        "topics": "shop-customers,shop-orders",
        "transforms": "table",
        "transforms.table.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.table.regex": "shop-(.*)",
        "transforms.table.replacement": "$1",
        "connection.url": url,
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "delete.enabled": "true",
        "auto.create": "true",
        **JSON_WITH_SCHEMAS,
    }


def price_settings(url: str) -> dict[str, str]:
    return {
        "connector.class": "ottla_sql.SqlSink",
        "tasks.max": "2",
        "topics": "prices",
        "connection.url": url,
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "sku",
        "delete.enabled": "true",
        "auto.create": "true",
        "offsets.table": "price_offsets",
        **JSON_WITHOUT_SCHEMAS,
    }


def publish_prices(bootstrap: str) -> dict[str, int]:
    """Publishes prices and tombstones, and returns what holds in the end."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    chance, prices = random.Random(5), {}
    for number in range(PRICE_CHANGES):
        sku = f"sku-{chance.randrange(KEYS)}"
        if chance.random() < 0.3:
            prices.pop(sku, None)
            producer.produce("prices", key=json.dumps(sku))
        else:
            prices[sku] = number
            producer.produce("prices", key=json.dumps(sku), value=json.dumps({"price": number}))
    assert producer.flush(30) == 0
    return prices


class Changes:
    """Changes both tables, one statement after the other, until it is left.

    Attributes:
        made: how many changes.
        deletes: how many rows were marked as deleted.
    """

    def __init__(self, url: str) -> None:
        self.made = 0
        self.deletes = 0
        self._url = url
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="changes")

    def __enter__(self) -> "Changes":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._failure is None, f"the tables could not be changed: {self._failure}"

    def wait_for(self, more: int) -> None:
        """Waits until so many more changes are made."""
        goal = self.made + more
        eventually(lambda: self.made >= goal or self._failure, f"{goal} changes are made", within_s=30)

    def _run(self) -> None:
        chance = random.Random(7)
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while not self._stopping.wait(0.004):
                    self._change(connection, chance)
        except psycopg.Error as error:
            self._failure = error

    def _change(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        table = chance.choice(("customers", "orders"))
        what = chance.choice(("insert", "insert", "update", "update", "delete"))
        row = chance.randrange(1, KEYS)
        if what == "insert":
            connection.execute(INSERTS[table], self._values(table, chance))
        elif what == "update":
            connection.execute(UPDATES[table], [*self._values(table, chance), row])
        else:
            cursor = connection.execute(
                f"UPDATE {table} SET deleted = true, changed = clock_timestamp() WHERE id = %s AND NOT deleted", [row]
            )
            self.deletes += cursor.rowcount
        self.made += 1

    def _values(self, table: str, chance: random.Random) -> list[Any]:
        if table == "customers":
            note = json.dumps({"visits": chance.randrange(9)}) if chance.random() < 0.5 else None
            return [f"Ångström {self.made}", chance.randrange(10**6) / 100, "1980-02-29", note]
        return [chance.randrange(KEYS), chance.random(), chance.random() < 0.5, chance.randbytes(20)]


INSERTS = {
    "customers": "INSERT INTO customers (name, credit, born, notes) VALUES (%s, %s, %s, %s)",
    "orders": "INSERT INTO orders (customer, total, paid, picture) VALUES (%s, %s, %s, %s)",
}
UPDATES = {
    "customers": "UPDATE customers SET name = %s, credit = %s, born = %s, notes = %s, changed = clock_timestamp()"
    " WHERE id = %s AND NOT deleted",
    "orders": "UPDATE orders SET customer = %s, total = %s, paid = %s, picture = %s, changed = clock_timestamp()"
    " WHERE id = %s AND NOT deleted",
}


def wait_until_same(scene: Scene, table: str) -> None:
    """Waits until all rows that are not deleted, and no others, are in the target."""
    expected = rows(scene.source, f"SELECT {SOURCE_CONTENT[table]} FROM {table} WHERE NOT deleted")

    def is_same() -> bool:
        return rows(scene.target, f"SELECT {TARGET_CONTENT[table]} FROM {table}") == expected

    eventually(is_same, f"the table {table} is the same in both databases", within_s=CONVERGED_DEADLINE_S)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """The rows in order; none if there is no such table yet."""
    with psycopg.connect(url) as connection:
        try:
            return sorted(connection.execute(query).fetchall(), key=repr)
        except psycopg.errors.UndefinedTable:
            return []
