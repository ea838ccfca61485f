"""The pipelines of the pages about Spark, with their own settings and queries, on small topics and files."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.connect.connector_files import parse_connectors
from ottla_spark import SparkPipeline, SparkSink, SparkSource
from tests.conftest import TopicFactory
from tests.documents.documents import ROOT
from tests.system.spark.test_jobs import Scene

pytestmark = pytest.mark.slow

GUIDE = (ROOT / "docs/spark.md").read_text()
REFERENCE = (ROOT / "docs/connectors/spark.md").read_text()
BEGINNING = {"carrier": "UA", "flight": 1, "origin": "EWR", "tailnum": "N1", "month": 1, "distance": 1400}
FLIGHTS = (
    {**BEGINNING, "dep_delay": 90, "time_hour": "2013-01-01T05:00:00Z"},
    {**BEGINNING, "flight": 2, "dep_delay": 130, "time_hour": "2013-01-01T05:00:00Z"},
    {**BEGINNING, "carrier": "AA", "dep_delay": 4, "tailnum": "N2", "time_hour": "2013-01-01T06:00:00Z"},
    {**BEGINNING, "dep_delay": 0, "flight": 9, "time_hour": "2016-01-01T00:00:00Z"},
)
"""The last is later than any watermark lets windows stay open."""
AIRLINES = "carrier,name\nAA,American\nUA,United\n"


@pytest.fixture
def scene(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Scene:
    return Scene(spark, bootstrap, tmp_path)


@pytest.fixture
def flights(scene: Scene, new_topic: TopicFactory) -> str:
    """A topic with `FLIGHTS`."""
    topic = new_topic()
    scene.publish(topic, FLIGHTS, key="carrier")
    return topic


@pytest.fixture
def airlines(scene: Scene, new_topic: TopicFactory) -> str:
    """A topic with two airlines, one of them under a former name as well."""
    topic = new_topic()
    rows = [
        {"carrier": "AA", "name": "Former"},
        {"carrier": "AA", "name": "American"},
        {"carrier": "UA", "name": "United"},
    ]
    scene.publish(topic, rows, key="carrier")
    return topic


def shown(page: str, name: str, folder: Path) -> dict[str, str]:
    """The settings of a pipeline of a page, with its files below a folder."""
    fenced = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^    .+\n)+", page, re.MULTILINE)
    blocks = [re.sub("^    ", "", each, flags=re.MULTILINE) for each in indented] + fenced
    (block,) = [each for each in blocks if each.startswith(f"name: {name}\n") and "ottla_spark." in each]
    (described,) = parse_connectors(block, name)
    settings = {key: value for key, value in described.config.items() if key != "checkpoint.location"}
    return {key: re.sub("^/(tmp/flights|data|jobs)/", f"{folder}/", value) for key, value in settings.items()}


def rows_of(scene: Scene, path: Path) -> list[dict[str, Any]]:
    """The rows of a table of files."""
    return [row.asDict() for row in scene.spark.read.parquet(str(path)).collect()]


def test_the_guides_delays_are_in_a_topic_and_a_table(
    scene: Scene, flights: str, airlines: str, new_topic: TopicFactory
) -> None:
    delays = new_topic()
    settings = shown(GUIDE, "delays", scene.folder)
    settings |= {"tables.flights.topic": flights, "tables.airlines.topic": airlines, "outputs.topic.topic": delays}
    scene.run(SparkPipeline, settings)
    windows = {(row["airline"], row["flights"], row["cancelled"], row["mean_delay"]) for _, row in scene.read(delays)}
    assert windows == {("United", 2, 0, 110.0), ("American", 1, 0, 4.0), ("Former", 1, 0, 4.0)}
    assert {row["carrier"] for row in rows_of(scene, scene.folder / "delays")} == {"AA", "UA"}


def test_the_guides_archive_has_a_folder_for_each_month(scene: Scene, flights: str) -> None:
    scene.run(SparkSink, {**shown(GUIDE, "archive", scene.folder), "topics": flights})
    assert [each.name for each in (scene.folder / "archive").glob("month=*")] == ["month=1"]
    assert {str(row["day_utc"]) for row in rows_of(scene, scene.folder / "archive")} == {"2013-01-01", "2016-01-01"}


def test_the_guides_weather_comes_from_files(scene: Scene, new_topic: TopicFactory) -> None:
    weather = new_topic()
    settings = {**shown(GUIDE, "weather", scene.folder), "topic": weather}
    names = [each.split()[0] for each in re.split(r",\s*", settings["read.schema"])]
    (scene.folder / "weather").mkdir()
    values = {"origin": "EWR", "year": "2013", "visib": "0.5", "time_hour": "2013-01-01T05:00:00Z"}
    lines = [",".join(names), ",".join(values.get(name, "1") for name in names)]
    (scene.folder / "weather" / "first.csv").write_text("\n".join(lines) + "\n")
    scene.run(SparkSource, settings)
    ((key, row),) = scene.read(weather)
    assert (key, row["year"], row["visib"], [*row]) == ("EWR", 2013, 0.5, names)


def test_the_guides_streams_are_joined(scene: Scene, flights: str, new_topic: TopicFactory) -> None:
    weather, late = new_topic(), new_topic()
    scene.publish(weather, [{"origin": "EWR", "time_hour": "2013-01-01T05:00:00Z", "visib": 0.5, "wind_gust": 30.0}])
    settings = shown(GUIDE, "in-weather", scene.folder)
    settings |= {"tables.flights.topic": flights, "tables.weather.topic": weather, "outputs.late.topic": late}
    scene.run(SparkPipeline, settings)
    assert {(key, row["dep_delay"], row["visib"]) for key, row in scene.read(late)} == {
        ("UA", 90, 0.5),
        ("UA", 130, 0.5),
    }


def test_the_guides_function_adds_up_miles_and_counts_equal_flights_once(
    scene: Scene, flights: str, new_topic: TopicFactory
) -> None:
    miles = new_topic()
    scene.publish(flights, FLIGHTS[:1], key="carrier")  # comes twice
    (program,) = [
        each
        for each in re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
        if "def by_aircraft" in each
    ]
    (scene.folder / "aircraft.py").write_text(program)
    scene.spark.sparkContext.addPyFile(str(scene.folder / "aircraft.py"))  # as a connector's task does
    settings = shown(GUIDE, "aircraft", scene.folder)
    scene.run(SparkPipeline, {**settings, "tables.flights.topic": flights, "outputs.miles.topic": miles})
    latest = {key: row["miles"] for key, row in scene.read(miles)}
    assert latest == {"N1": 3 * 1400, "N2": 1400}


def test_the_references_files_come_into_topics(scene: Scene, new_topic: TopicFactory) -> None:
    airlines, readings = new_topic(), new_topic()
    (scene.folder / "airlines.csv").write_text(AIRLINES)
    scene.run(SparkSource, {**shown(REFERENCE, "airlines", scene.folder), "topic": airlines})
    assert {key: row["name"] for key, row in scene.read(airlines)} == {"AA": "American", "UA": "United"}

    (scene.folder / "readings").mkdir()
    lines = [json.dumps({"sensor": "s-1", "celsius": value, "at": "2026-01-01T00:00:00Z"}) for value in (20.5, None)]
    (scene.folder / "readings" / "first.json").write_text("\n".join(lines) + "\n")
    settings = {**shown(REFERENCE, "readings", scene.folder), "checkpoint.location": str(scene.folder / "other")}
    scene.run(SparkSource, {**settings, "topic": readings})
    assert [(key, row["celsius"]) for key, row in scene.read(readings)] == [("s-1", 20.5)]


def test_the_references_table_has_a_folder_for_each_day(scene: Scene, flights: str) -> None:
    scene.run(SparkSink, {**shown(REFERENCE, "flights-table", scene.folder), "topics": flights})
    assert {each.name for each in (scene.folder / "flights").glob("day=*")} == {"day=2013-01-01", "day=2016-01-01"}


def test_the_references_delays_are_written_by_name(
    scene: Scene, flights: str, airlines: str, new_topic: TopicFactory
) -> None:
    delays = new_topic()
    settings = shown(REFERENCE, "delays", scene.folder)
    settings |= {"tables.flights.topic": flights, "tables.airlines.topic": airlines, "outputs.latest.topic": delays}
    scene.run(SparkPipeline, settings)
    assert {(key, row["flights"]) for key, row in scene.read(delays)} >= {("United", 2), ("American", 1)}
    assert {row["name"] for row in rows_of(scene, scene.folder / "delays")} == {"United", "American", "Former"}


def test_the_references_function_keeps_the_worst(scene: Scene, flights: str, new_topic: TopicFactory) -> None:
    worst = new_topic()
    (program,) = re.findall(r"with `/jobs/delays.py`:\n\n((?:    .*\n|\n)+)", REFERENCE)
    (scene.folder / "delays.py").write_text(re.sub("^    ", "", program, flags=re.MULTILINE))
    settings: Mapping[str, str] = shown(REFERENCE, "delays-python", scene.folder)
    scene.run(SparkPipeline, {**settings, "tables.flights.topic": flights, "outputs.worst.topic": worst})
    assert [(key, row["dep_delay"]) for key, row in scene.read(worst)] == [("UA", 130.0)]


def test_the_references_view_has_the_last_of_each_key(scene: Scene, airlines: str, new_topic: TopicFactory) -> None:
    names = new_topic()
    (view,) = re.findall(
        r"(?:^    .+\n)*^    CREATE TEMPORARY VIEW latest AS\n(?:^    .+\n)+", REFERENCE, re.MULTILINE
    )
    settings = {
        "tables": "airlines",
        "tables.airlines.topic": airlines,
        "tables.airlines.mode": "static",
        "tables.airlines.value.schema": "carrier STRING, name STRING",
        "sql": f"{view}\nSELECT * FROM latest",
        "outputs": "names",
        "outputs.names.topic": names,
        "outputs.names.key.columns": "carrier",
    }
    scene.run(SparkPipeline, settings)
    assert {key: row["name"] for key, row in scene.read(names)} == {"AA": "American", "UA": "United"}
