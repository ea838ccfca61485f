"""Whose checkpoint a folder is: decided by what `ottla-query.json` in it says, before Spark sees it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ottla_sdk import FatalError
from ottla_spark.formats.format import Format
from ottla_spark.job.checkpoint import (
    LocalFolder,
    continued_record,
    folder_at,
    local_path,
    next_batch,
    offsets_digest,
)
from ottla_spark.job.checkpoint_record import FILE_NAME, CheckpointRecord, ForeignCheckpoint
from ottla_spark.job.plan import FormatRead, FormatWrite, JobPlan, Output, Table, TopicRead, TopicWrite
from ottla_spark.job.query_text import SqlQuery

JSON = Format(name="json", schema="a INT")


def topic_table(name: str, topic: str) -> Table:
    return Table(name=name, streaming=True, reading=TopicRead(topics=(topic,), key=JSON, value=JSON))


def files(path: str) -> Output:
    return Output(name="table", writing=FormatWrite(format="parquet", path=path))


def topic(name: str) -> Output:
    return Output(name="table", writing=TopicWrite(topic=name, key=JSON, value=JSON))


@pytest.fixture
def plan(tmp_path: Path) -> JobPlan:
    airlines = Table(name="airlines", streaming=False, reading=FormatRead(format="csv", path="/data/airlines.csv"))
    return JobPlan(
        connector="delays",
        tables=(topic_table("flights", "flights"), airlines),
        query=SqlQuery(query="SELECT 1"),
        outputs=(files("/data/delays"),),
        checkpoint_location=str(tmp_path / "state"),
    )


def kept(plan: JobPlan) -> LocalFolder:
    folder = LocalFolder(Path(plan.checkpoint_location))
    folder.write(FILE_NAME, continued_record(folder, plan).to_json())
    return folder


def test_a_new_checkpoint_says_whose_it_is(plan: JobPlan) -> None:
    kept(plan)
    document = json.loads((Path(plan.checkpoint_location) / FILE_NAME).read_text())
    assert document == {
        "version": 1,
        "connector": "delays",
        "tables": {"flights": "topic flights"},
        "outputs": {"table": "parquet /data/delays"},
        "schemas": {},
        "begun": {},
        "done": [],
    }
    assert [path.name for path in Path(plan.checkpoint_location).iterdir()] == [FILE_NAME]


def test_what_is_kept_in_it_comes_back(plan: JobPlan) -> None:
    record = (
        CheckpointRecord.of(plan)
        .with_schemas({"flights": {"value": "a INT"}})
        .with_begun("table", fresh=True)
        .with_done("table")
    )
    assert CheckpointRecord.from_json(record.to_json(), "/state") == record


def test_the_same_query_goes_on(plan: JobPlan) -> None:
    folder = kept(plan)
    changed = replace(plan, query=SqlQuery(query="SELECT 2"), trigger_interval="1 minute")
    assert continued_record(folder, changed) == CheckpointRecord.of(plan)


def test_tables_and_outputs_may_be_added_and_what_is_gone_is_remembered(plan: JobPlan) -> None:
    folder = kept(plan)
    more = Output(name="more", writing=FormatWrite(format="csv", path="/data/more"))
    grown = replace(plan, tables=(*plan.tables, topic_table("weather", "weather")), outputs=(more,))
    record = continued_record(folder, grown)
    assert record.tables == {"flights": "topic flights", "weather": "topic weather"}
    assert record.outputs == {"table": "parquet /data/delays", "more": "csv /data/more"}


def test_another_connectors_checkpoint_is_refused_with_both_named(plan: JobPlan) -> None:
    folder = kept(plan)
    with pytest.raises(ForeignCheckpoint) as raised:
        continued_record(folder, replace(plan, connector="arrivals"))
    what = "flights reads topic flights, table writes parquet /data/delays"
    assert str(raised.value) == (
        f"the checkpoint {plan.checkpoint_location} is that of another query: it belongs to the connector delays "
        f"({what}), this is arrivals ({what}). Set checkpoint.location to another folder; to begin anew in this one, "
        "delete it first"
    )


def test_a_table_or_files_that_are_others_now_are_refused(plan: JobPlan) -> None:
    folder = kept(plan)
    changed = replace(plan, tables=(topic_table("flights", "arrivals"),), outputs=(files("/data/arrivals"),))
    with pytest.raises(ForeignCheckpoint) as raised:
        continued_record(folder, changed)
    assert "there the table flights reads topic flights, here topic arrivals" in str(raised.value)
    assert "there the output table writes parquet /data/delays, here parquet /data/arrivals" in str(raised.value)


def test_a_topic_may_follow_on_another_and_on_files_as_spark_allows(plan: JobPlan) -> None:
    folder = kept(plan)
    assert continued_record(folder, replace(plan, outputs=(topic("delays"),))).outputs == {"table": "topic delays"}


def test_files_may_not_follow_on_a_topic_as_they_would_lack_what_went_there(plan: JobPlan) -> None:
    folder = kept(replace(plan, outputs=(topic("delays"),)))
    with pytest.raises(ForeignCheckpoint, match="writes topic delays, here parquet"):
        continued_record(folder, plan)


@pytest.mark.parametrize("place", ["metadata", "table/metadata"])
def test_a_checkpoint_that_no_connector_has_made_is_refused(plan: JobPlan, place: str) -> None:
    found = Path(plan.checkpoint_location) / place
    found.parent.mkdir(parents=True)
    found.write_text('{"id":"04e20af8-15d4-4a63-804f-cf094b926541"}')
    with pytest.raises(ForeignCheckpoint, match="a checkpoint of Spark that no connector has made"):
        continued_record(LocalFolder(Path(plan.checkpoint_location)), plan)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "connector": "a", "colour": 1}'])
def test_a_file_that_is_something_else_is_refused(plan: JobPlan, text: str) -> None:
    folder = LocalFolder(Path(plan.checkpoint_location))
    folder.write(FILE_NAME, text)
    with pytest.raises(ForeignCheckpoint, match="was not written by a connector"):
        continued_record(folder, plan)


def test_a_file_of_a_later_version_is_refused(plan: JobPlan) -> None:
    folder = LocalFolder(Path(plan.checkpoint_location))
    folder.write(FILE_NAME, json.dumps({"version": 2, "connector": "delays"}))
    with pytest.raises(ForeignCheckpoint, match="has the version 2, this is for 1"):
        continued_record(folder, plan)


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FatalError, match="cannot be written"):
        LocalFolder(tmp_path / "file" / "below").write(FILE_NAME, "{}")


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/state/a", "/state/a"),
        ("file:///state/a%20b", "/state/a%20b"),  # Hadoop takes it as it is written, and Spark is in this folder
        ("file:///state/a?b#c", "/state/a?b#c"),
        ("file:/state", "/state"),
        ("s3a://bucket/a", None),
        ("hdfs:/state", None),
    ],
)
def test_which_folders_are_on_this_machine(location: str, path: str | None) -> None:
    assert local_path(location) == (None if path is None else Path(path))
    assert (folder_at(location) is None) == (path is None)


def test_from_which_batch_on_an_output_is_written_exactly_once_is_noted_at_its_first_start(plan: JobPlan) -> None:
    first = CheckpointRecord.of(plan).with_exactly_once({"table": 4})
    assert CheckpointRecord.from_json(first.to_json(), "/state") == first
    assert first.with_exactly_once({"table": 9, "other": 2}).exactly_once_since == {"table": 4, "other": 2}
    assert first.with_exactly_once({}).exactly_once_since == {}
    assert first.with_exactly_once({}).with_exactly_once({"table": 9}).exactly_once_since == {"table": 9}


def test_the_name_under_which_an_output_is_written_stays(plan: JobPlan) -> None:
    record = CheckpointRecord.of(plan).with_writer("table", "some-name")
    assert CheckpointRecord.from_json(record.to_json(), "/state").writers == {"table": "some-name"}


@pytest.mark.parametrize(
    ("begun", "done", "expected"),
    [([], [], 0), ([0], [], 0), ([0], [0], 1), ([7, 8, 9], [7, 8], 9), ([9, 10], [9, 10], 11)],
)
def test_a_query_goes_on_with_the_batch_that_was_not_finished(
    tmp_path: Path, begun: list[int], done: list[int], expected: int
) -> None:
    for log, numbers in (("offsets", begun), ("commits", done)):
        folder = tmp_path / "delays" / log
        folder.mkdir(parents=True)
        (folder / ".0.crc").write_text("")
        for number in numbers:
            (folder / str(number)).write_text("")
    assert next_batch(LocalFolder(tmp_path), "delays") == expected
    assert next_batch(LocalFolder(tmp_path), "another") == 0


def test_batches_are_told_by_the_offsets_that_spark_has_noted(tmp_path: Path) -> None:
    log, folder = tmp_path / "delays" / "offsets", LocalFolder(tmp_path)
    log.mkdir(parents=True)
    for number, text in ((7, "v1\n{}\n5"), (8, "v1\n{}\n9"), (9, "v1\n{}\n5")):
        (log / str(number)).write_text(text)
    seventh, eighth, like_seventh = (offsets_digest(folder, "delays", number) for number in (7, 8, 9))
    assert seventh == like_seventh != eighth
    assert offsets_digest(folder, "delays", 10) == ""
