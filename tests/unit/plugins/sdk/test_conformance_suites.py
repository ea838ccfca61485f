"""The conformance suites pass plugins that keep the rules, and notice each rule that one breaks."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from ottla_sdk import (
    ConfigProvider,
    ConnectRecord,
    Converter,
    DataError,
    FatalError,
    PluginConfig,
    Predicate,
    Problem,
    RetriableError,
    Role,
    Schema,
    SchemaAndValue,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
    Transform,
    schema,
    setting,
)
from ottla_sdk.conformance import (
    MemorySinkTaskContext,
    config_provider_suite,
    converter_suite,
    predicate_suite,
    sink_connector_suite,
    sink_records,
    source_connector_suite,
    transform_suite,
)

broken: list[bool] = []  # whether the systems outside are away


class Breaking:
    def __init__(self, _: object) -> None:
        pass

    def __enter__(self) -> None:
        broken.append(True)

    def __exit__(self, *_: object) -> None:
        broken.clear()


class CountConfig(PluginConfig):
    """How far to count."""

    count: int = setting("count", doc="How far to count.")
    password: SecretStr | None = setting("password", None, doc="Who may count.")


class CountTask(SourceTask[CountConfig]):
    """Counts."""

    config_model: ClassVar[type[PluginConfig]] = CountConfig

    def start(self) -> None:
        offset = self.context.offsets.offset({"part": 1})
        self.next = 0 if offset is None else offset["number"] + 1

    def poll(self) -> Sequence[SourceRecord]:
        if self.next >= self.config.count:
            self.context.wait(0.01)
            return []
        self.next += 1
        return [self.record(self.next - 1)]

    def record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic="t",
            value=number,
            value_schema=schema.INT32,
            source_partition={"part": 1},
            source_offset={"number": number},
        )


class Count(SourceConnector[CountConfig]):
    """Counts."""

    config_model: ClassVar[type[PluginConfig]] = CountConfig
    task_class: ClassVar[type[Any]] = CountTask

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [dict(self.settings)]


class LosesTheFirstAfterARestart(CountTask):
    def start(self) -> None:
        super().start()
        self.next += 1 if self.next else 0


class ForgetsItsOffset(CountTask):
    def start(self) -> None:
        self.next = 0


class TakesForEver(CountTask):
    def poll(self) -> Sequence[SourceRecord]:
        time.sleep(0.02)  # is the fault that the suite has to notice
        return super().poll()


class DoesNotFitItsSchema(CountTask):
    def record(self, number: int) -> SourceRecord:
        return super().record(number).replaced(value=str(number))


class OffsetsAreNotJson(CountTask):
    def record(self, number: int) -> SourceRecord:
        return super().record(number).replaced(source_offset={"number": number, 1: (2,)})


class CannotStopTwice(CountTask):
    def stop(self) -> None:
        del self.next


class SkipsAfterAFailure(CountTask):
    def poll(self) -> Sequence[SourceRecord]:
        if broken:
            self.next += 1
            raise RetriableError("the system is away")
        return super().poll()


class SkipsAfterALongFailure(CountTask):
    failures = 0

    def poll(self) -> Sequence[SourceRecord]:
        if broken:
            self.failures += 1
            if self.failures < 3:
                raise RetriableError("the system is away")
            return [self.record(self.config.count)]
        return super().poll()


class ForgetsWhereItWasWhenItIsStopped(CountTask):
    def poll(self) -> Sequence[SourceRecord]:
        if self.context.should_stop():
            return [self.record(self.config.count)]
        return super().poll()


taken: list[int] = []  # what no other task reads any more


class ReadsFromAQueue(CountTask):
    def poll(self) -> Sequence[SourceRecord]:
        records = [each for each in super().poll() if each.value not in taken]
        taken.extend(each.value for each in records)
        return records


class TellsItsPassword(CountTask):
    def poll(self) -> Sequence[SourceRecord]:
        if broken:
            raise RetriableError("cannot log in with the password hush")
        return super().poll()


class TwoTasks(Count):
    """Gives the same work to two tasks."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [dict(self.settings)] * tasks_max


class TooManyTasks(Count):
    """Does not mind how many tasks it may have."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [dict(self.settings)] * (tasks_max + 1)


class WithNumbersInTaskConfigs(Count):
    """Has settings that are no texts."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        return [{**self.settings, "count": 3}]  # type: ignore[dict-item]


def source_suite(connector: type[SourceConnector[Any]], **options: Any) -> Any:
    return source_connector_suite(
        connector,
        settings={"count": "4"},
        expect_records=4,
        is_installed=False,
        interruption=Breaking,
        within_s=0.2,
        **options,
    )


def with_task(task: type[SourceTask[Any]]) -> type[SourceConnector[Any]]:
    return type("Source", (Count,), {"task_class": task, "__doc__": "A source."})


TestCount = source_suite(Count)

BREAKS_IN_SOURCES = [
    (with_task(LosesTheFirstAfterARestart), "test_a_restarted_task_goes_on_behind_the_committed_offset", "lost"),
    (with_task(ForgetsItsOffset), "test_a_restarted_task_goes_on_behind_the_committed_offset", "came again"),
    (with_task(DoesNotFitItsSchema), "test_all_records_come", "does not fit"),
    (with_task(OffsetsAreNotJson), "test_all_records_come", "not the same behind JSON"),
    (with_task(SkipsAfterAFailure), "test_a_failed_poll_leaves_the_task_where_it_was", "of 4 records"),
    (with_task(SkipsAfterALongFailure), "test_an_outage_that_is_longer_than_all_retries_loses_nothing", "lost"),
    (with_task(ForgetsWhereItWasWhenItIsStopped), "test_a_stop_in_the_middle_of_a_poll_loses_nothing", "lost"),
    (with_task(ReadsFromAQueue), "test_a_task_that_wakes_up_after_a_takeover_does_no_harm", "records after|lost"),
    (with_task(CannotStopTwice), "test_start_and_stop_may_come_again", "next"),
    (TwoTasks, "test_several_tasks_divide_the_records", "."),
    (TooManyTasks, "test_the_division_into_tasks_is_within_bounds", "2 tasks of at most 1"),
    (WithNumbersInTaskConfigs, "test_the_division_into_tasks_is_within_bounds", "not only texts"),
    (with_task(CountTask), "test_the_class_is_found_by_its_name", "something else"),
]


@pytest.mark.parametrize(("connector", "test", "complaint"), BREAKS_IN_SOURCES)
def test_a_broken_rule_of_sources_is_noticed(
    connector: type[SourceConnector[Any]], test: str, complaint: str
) -> None:
    suite = source_suite(connector)()
    arguments = [] if "name" in test else [{"count": "4"}]
    with pytest.raises((AssertionError, DataError, AttributeError), match=complaint):
        getattr(suite, test)(*arguments)


def test_a_secret_in_an_error_of_a_source_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    suite = source_suite(with_task(TellsItsPassword), secrets=["hush"])()
    with pytest.raises(AssertionError, match="a secret is shown: cannot log in with the password …"):
        suite.test_no_error_and_no_line_of_the_log_has_a_secret({"count": "4"}, caplog)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_source_that_goes_by_the_offsets_of_what_has_gone_is_noticed(is_away: bool) -> None:
    suite = source_suite(Count, recreation=lambda _: 4)()
    with pytest.raises(AssertionError, match="records after"):
        suite.test_what_is_created_anew_is_read_from_its_beginning({"count": "4"}, is_away)


def test_a_poll_that_takes_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla_sdk.conformance.source_suite.POLL_MAX_S", 0.01)
    with pytest.raises(AssertionError):
        source_suite(with_task(TakesForEver))().test_poll_returns_in_time({"count": "4"})


class PathConfig(PluginConfig):
    """Where to write."""

    path: Path = setting("path", doc="Where to write.")


class AppendTask(SinkTask[PathConfig]):
    """Appends."""

    config_model: ClassVar[type[PluginConfig]] = PathConfig

    def put(self, records: Sequence[SinkRecord]) -> None:
        if broken:
            raise RetriableError("the target is away")
        for record in records:
            if record.value == "bad":
                self.context.report(record, DataError("bad"))
            else:
                self.write(record)

    def write(self, record: SinkRecord) -> None:
        with self.config.path.open("a") as file:
            file.write(json.dumps(record.value) + "\n")


class Append(SinkConnector[PathConfig]):
    """Appends."""

    config_model: ClassVar[type[PluginConfig]] = PathConfig
    task_class: ClassVar[type[Any]] = AppendTask


class ForgetsTheLast(AppendTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records[:-1])


class CommitsBeforeItWrites(AppendTask):
    def start(self) -> None:
        self.kept: list[SinkRecord] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(self.kept)
        self.kept = list(records)


class CommitsWhatItWasNotGiven(AppendTask):
    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {partition: offset + 1 for partition, offset in offsets.items()}


class ChangesRecords(AppendTask):
    def write(self, record: SinkRecord) -> None:
        super().write(record)
        record.topic = "changed"


class StumblesOverTombstones(AppendTask):
    def write(self, record: SinkRecord) -> None:
        assert record.value.keys()
        super().write(record)


class HidesBadRecords(AppendTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put([record for record in records if record.value != "bad"])


class WritesThingsOfItsOwn(AppendTask):
    def start(self) -> None:
        self.config.path.write_text('"hello"\n')


class LosesWhatFailed(AppendTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        seen = self.__dict__.setdefault("seen", set())
        fresh = [record for record in records if (record.origin, record.offset) not in seen]
        seen |= {(record.origin, record.offset) for record in fresh}
        super().put(fresh)


class LeavesOutWhatItHas(AppendTask):
    """Keeps offsets beside its data, and goes by them whatever topic they are of."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        path = self.config.path.with_suffix(".offsets")
        known = json.loads(path.read_text()) if path.exists() else {}
        fresh = [each for each in records if each.offset >= known.get(str(each.original_partition), 0)]
        super().put(fresh)
        known.update({str(each.original_partition): each.offset + 1 for each in fresh})
        path.write_text(json.dumps(known))


class GivesUpOnRecords(AppendTask):
    tries = 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.tries += 1
        if broken and self.tries > 3:
            for record in records:
                self.context.report(record, DataError("gave up"))
        else:
            super().put(records)


class DropsWhatItHasWhenItIsStopped(AppendTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        if not self.context.should_stop():
            super().put(records)


class TellsWhereItWrites(AppendTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        if broken:
            raise RetriableError(f"cannot write to {self.config.path}")
        super().put(records)


def read_back(settings: Mapping[str, str]) -> Iterable[Any]:
    path = Path(settings["path"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sink_suite(connector: type[SinkConnector[Any]], **options: Any) -> Any:
    return sink_connector_suite(
        connector,
        settings=lambda directory: {"path": str(directory / "values")},
        records=sink_records([{"n": number} for number in range(8)]),
        read_back=read_back,
        bad_record=sink_records(["bad"])[0],
        interruption=Breaking,
        is_installed=False,
        within_s=0.2,
        **options,
    )


TestAppend = sink_suite(Append)

BREAKS_IN_SINKS = [
    (ForgetsTheLast, "test_all_records_are_written"),
    (CommitsBeforeItWrites, "test_what_is_committed_is_in_the_target"),
    (CommitsWhatItWasNotGiven, "test_what_is_committed_is_in_the_target"),
    (StumblesOverTombstones, "test_a_record_without_a_value_is_written_or_reported"),
    (HidesBadRecords, "test_a_bad_record_is_reported_and_the_others_are_written"),
    (WritesThingsOfItsOwn, "test_records_may_come_again_in_the_same_task"),
    (LosesWhatFailed, "test_records_are_written_once_the_target_is_back"),
    (ChangesRecords, "test_records_are_not_changed"),
    (LeavesOutWhatItHas, "test_a_topic_that_was_created_anew_is_not_taken_for_written"),
    (LeavesOutWhatItHas, "test_a_topic_that_is_created_anew_while_a_task_runs_is_not_taken_for_written"),
    (GivesUpOnRecords, "test_an_outage_that_is_longer_than_all_retries_loses_nothing"),
    (DropsWhatItHasWhenItIsStopped, "test_a_stop_in_the_middle_of_a_write_loses_nothing"),
]


@pytest.mark.parametrize(("task", "test"), BREAKS_IN_SINKS)
def test_a_broken_rule_of_sinks_is_noticed(tmp_path: Path, task: type[SinkTask[Any]], test: str) -> None:
    connector = type("Sink", (Append,), {"task_class": task, "__doc__": "A sink."})
    with pytest.raises((AssertionError, AttributeError)):
        getattr(sink_suite(connector)(), test)({"path": str(tmp_path / "values")})


def test_a_sink_that_is_not_exact_is_noticed_if_it_says_so(tmp_path: Path) -> None:
    suite = sink_suite(Append, is_exact=True)()
    for number, test in enumerate(
        (
            suite.test_records_may_come_again_in_the_same_task,
            suite.test_a_task_that_wakes_up_after_a_takeover_does_no_harm,
        )
    ):
        with pytest.raises(AssertionError):
            test({"path": str(tmp_path / f"values-{number}")})


def test_a_secret_in_an_error_of_a_sink_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    connector = type("Sink", (Append,), {"task_class": TellsWhereItWrites, "__doc__": "A sink."})
    suite = sink_suite(connector, secrets=["hush"])()
    with pytest.raises(AssertionError, match="a secret is shown"):
        suite.test_no_error_and_no_line_of_the_log_has_a_secret({"path": str(tmp_path / "hush")}, caplog)


class Upper(Transform[PluginConfig]):
    """Writes values in capitals."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        if not isinstance(record.value, str):
            raise DataError("the value is no string")
        return record.replaced(value=record.value.upper())


class UpperInPlace(Upper):
    """Writes values in capitals, also for others."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if isinstance(record.value, str):
            record.value = record.value.upper()
        return record


class UpperOfElsewhere(Upper):
    """Forgets where records are from."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        made = super().apply(record)
        return made.replaced(offset=0) if isinstance(made, SinkRecord) else made


class UpperWithMemory(Upper):
    """Drops every second record."""

    count = 0

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        self.count += 1
        return super().apply(record) if self.count % 2 else None


def transform_cases() -> list[Any]:
    return [
        ({}, ConnectRecord(topic="t", value="a"), ConnectRecord(topic="t", value="A")),
        ({}, ConnectRecord(topic="t", value=1), DataError),
    ]


TestUpper = transform_suite(Upper, cases=transform_cases(), is_installed=False)


@pytest.mark.parametrize(
    ("transform", "test"),
    [
        (UpperInPlace, "test_records_are_not_changed_in_place"),
        (UpperOfElsewhere, "test_where_a_record_is_from_stays"),
        (UpperWithMemory, "test_the_same_record_gives_the_same_again"),
    ],
)
def test_a_broken_rule_of_transforms_is_noticed(transform: type[Transform[Any]], test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(transform_suite(transform, cases=transform_cases(), is_installed=False)(), test)()


def test_a_transform_that_does_something_else_is_noticed() -> None:
    cases: list[Any] = [({}, ConnectRecord(topic="t", value="a"), None)]
    with pytest.raises(AssertionError):
        transform_suite(Upper, cases=cases)().test_records_become_what_they_should()


class IsTombstone(Predicate[PluginConfig]):
    """Is true of tombstones."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None


TestIsTombstone = predicate_suite(
    IsTombstone,
    cases=[({}, ConnectRecord(topic="t"), True), ({}, ConnectRecord(topic="t", value=1), False)],
    is_installed=False,
)


def test_a_predicate_that_says_something_else_is_noticed() -> None:
    suite = predicate_suite(IsTombstone, cases=[({}, ConnectRecord(topic="t"), False)])()
    with pytest.raises(AssertionError):
        suite.test_it_says_of_records_what_it_should()


class Texts(Converter[PluginConfig]):
    """Converts strings."""

    def serialize(self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Any] = ()) -> bytes | None:
        del topic, schema, headers
        if value is None:
            return None
        if not isinstance(value, str):
            raise DataError("no string")
        return value.encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Any] = ()) -> SchemaAndValue:
        del topic, headers
        try:
            return SchemaAndValue(schema.STRING, None if data is None else data.decode())
        except UnicodeDecodeError as error:
            raise DataError(str(error)) from error


class ForgetfulTexts(Texts):
    """Converts the first letter of strings."""

    def deserialize(self, topic: str, data: bytes | None, headers: Sequence[Any] = ()) -> SchemaAndValue:
        return super().deserialize(topic, None if data is None else data[:1], headers)


def text_suite(converter: type[Converter[Any]], **options: Any) -> Any:
    return converter_suite(
        converter,
        settings={},
        **{
            "values": [(schema.STRING, "text")],
            "unfitting": [(None, 1)],
            "damaged": [b"\xff"],
            "roles": (Role.KEY, Role.VALUE),
            "is_installed": False,
            **options,
        },
    )


TestTexts = text_suite(Texts)


@pytest.mark.parametrize(
    ("converter", "test", "options"),
    [
        (ForgetfulTexts, "test_values_come_out_as_they_went_in", {}),
        (Texts, "test_values_come_out_as_they_went_in", {"values": [(None, "text")]}),
        (Texts, "test_damaged_bytes_are_refused", {"damaged": [b"fine"]}),
        (Texts, "test_what_does_not_fit_is_refused", {"unfitting": [(None, "fine")]}),
    ],
)
def test_a_broken_rule_of_converters_is_noticed(
    converter: type[Converter[Any]], test: str, options: dict[str, Any]
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(text_suite(converter, **options)(), test)({})


class Secrets(ConfigProvider[PathConfig]):
    """Looks secrets up in a JSON file."""

    config_model: ClassVar[type[PluginConfig]] = PathConfig

    def get(self, path: str, key: str) -> str:
        del path
        values = json.loads(self.config.path.read_text())
        if key not in values:
            raise FatalError(f"there is no {key}")
        return str(values[key])


class TalkativeSecrets(Secrets):
    """Tells more than it was asked."""

    def get(self, path: str, key: str) -> str:
        try:
            return super().get(path, key)
        except FatalError as error:
            raise FatalError(f"{error}, but {self.config.path.read_text()}") from None


def secrets(directory: Path) -> Mapping[str, str]:
    (directory / "secrets.json").write_text('{"user": "a", "password": "open sesame"}')
    return {"path": str(directory / "secrets.json")}


KNOWN = {("", "password"): "open sesame"}
TestSecrets = config_provider_suite(Secrets, settings=secrets, known=KNOWN, unknown=("", "x"), is_installed=False)


def test_a_provider_that_shows_secrets_is_noticed(tmp_path: Path) -> None:
    suite = config_provider_suite(TalkativeSecrets, settings=secrets, known=KNOWN, unknown=("", "x"))()
    with pytest.raises(AssertionError):
        suite.test_an_unknown_value_is_an_error_that_shows_no_other(dict(secrets(tmp_path)), tmp_path)


def test_a_plugin_without_an_entry_point_is_noticed() -> None:
    suite = predicate_suite(IsTombstone, cases=[({}, ConnectRecord(topic="t"), True)])()
    with pytest.raises(AssertionError, match="has no entry point"):
        suite.test_an_entry_point_declares_the_class()


class Careless(PluginConfig):
    """Settings without documentation, and with a default that is none."""

    silent: int = setting("silent", 1, doc="")
    doubtful: int = setting("doubtful", "one", doc="The default is no number.")


def suite_of_settings(config: type[PluginConfig]) -> Any:
    predicate = type("Settings", (IsTombstone,), {"config_model": config})
    return predicate_suite(predicate, cases=[({}, ConnectRecord(topic="t"), True)])()


@pytest.mark.parametrize(
    ("test", "arguments"),
    [("test_every_setting_is_documented", []), ("test_defaults_mean_the_same_when_written_out", [{}])],
)
def test_careless_settings_are_noticed(test: str, arguments: list[Any]) -> None:
    check: Callable[..., None] = getattr(suite_of_settings(Careless), test)
    with pytest.raises((AssertionError, FatalError)):
        check(*arguments)


class OneAtATime(CountConfig):
    """Names the first problem only."""

    other: int = setting("other", doc="Another number.")

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Any:
        try:
            return super().parse(settings)
        except FatalError as error:
            raise type(error)(error.problems[:1]) from None  # type: ignore[attr-defined]


def test_settings_of_which_only_one_is_named_are_noticed() -> None:
    with pytest.raises(AssertionError, match="only"):
        suite_of_settings(OneAtATime).test_everything_wrong_is_named_at_once({"count": "1", "other": "2"})


class Indiscreet(CountConfig):
    """Shows the password when there is something wrong."""

    def check(self) -> Iterable[Problem]:
        if self.password is not None:
            yield Problem("password", f"{self.password.get_secret_value()} is not the right one")


def test_a_secret_that_is_shown_is_noticed() -> None:
    with pytest.raises(AssertionError):
        suite_of_settings(Indiscreet).test_no_secret_is_shown({"count": "1"})


def test_a_sink_may_only_ask_for_partitions_that_it_has() -> None:
    context = MemorySinkTaskContext()
    context.assign([TopicPartition("t", 0)])
    context.pause([TopicPartition("t", 0)])
    with pytest.raises(AssertionError, match="not assigned"):
        context.seek({TopicPartition("t", 1): 0})
