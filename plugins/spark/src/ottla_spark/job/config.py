"""Settings that all three connectors have, and how settings below prefixes are put together with them.

A connector's model names its nested models in `nested`; `parse` validates all of them and reports everything that is
wrong at once, under full keys such as `tables.flights.watermark`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal, Self

from pydantic import PrivateAttr

from ottla_sdk import Importance, InvalidConfig, PluginConfig, Problem, Width, setting
from ottla_spark.job.nested_settings import NestedConfig, below, collected
from ottla_spark.job.setting_types import Duration

SPARK, KAFKA = "spark.", "kafka."
SOURCE_KEY = "kafka.source"
SPECULATION = "spark.speculation"
SPECULATION_PROBLEM = (
    "must be false where a topic is written: two tasks would write the same rows side by side, and the one that is "
    "given up may leave an earlier row of a key behind the latest"
)
EXACTLY_ONCE_PROBLEM = f"exactly-once is for {SOURCE_KEY}=ottla; Spark's own sink writes no transactions"
NAME = "NAME"
"""Stands in the prefix of a nested model for names that users choose."""

_SPARK, _READING, _CLUSTER = "Spark", "Reading topics", "Kafka cluster"


class JobConfig(PluginConfig):
    """Where a job keeps its state, how often it works, and how it reaches Spark and the topics' cluster."""

    nested: ClassVar[Mapping[str, type[NestedConfig]]] = {}
    names_keys: ClassVar[Mapping[str, str]] = {}
    """By the prefix of a nested model with NAME in it: the setting that lists the names."""

    _nested: Mapping[str, Mapping[str, NestedConfig]] = PrivateAttr(default_factory=dict)
    _spark: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _kafka: Mapping[str, str] = PrivateAttr(default_factory=dict)

    checkpoint_location: str = setting(
        "checkpoint.location",
        doc="A folder of the connector's own, where Spark keeps how far it has come and its state: a path that every "
        "worker and executor sees, or a URI such as `hdfs://…` or `s3a://…`. Whoever deletes it begins anew.",
        importance=Importance.HIGH,
        width=Width.LONG,
        min_length=1,
    )
    trigger_interval: Duration = setting(
        "trigger.interval",
        "0 seconds",
        doc="How often a batch begins; with `0 seconds` the next begins when one has ended and there is something "
        "new.",
    )
    available_now: bool = setting(
        "trigger.available.now",
        False,
        doc="Work up to what there is when the task starts, then rest without Spark; restarting the task does the "
        "same with what has come since.",
    )
    fail_on_data_loss: bool = setting(
        "fail.on.data.loss",
        True,
        doc="Fail when records are gone that have not been read, as retention or a deleted topic took them; "
        "otherwise go on with the next that there are, and warn.",
        group=_READING,
    )
    max_offsets_per_trigger: int | None = setting(
        "max.offsets.per.trigger", None, doc="Most records of a table in a batch; by default any "
        "number.", group=_READING,
        ge=1,
    )  # fmt: skip
    commit_group: str | None = setting(
        "commit.group",
        None,
        doc="The consumer group to which offsets are committed after each batch, so that `ottla group describe` and "
        "other tools show the lag; Spark itself never reads them. By default `connect-NAME` with the connector's "
        "name; with several outputs, `-OUTPUT` behind it, as each has its own. Empty: none.",
        group=_READING,
    )
    kafka_source: Literal["ottla", "kafka"] = setting(
        SOURCE_KEY,
        "ottla",
        doc="What reads and writes topics: Ottla's data source, or Spark's own, whose jars must be there "
        "(`spark.jars.packages`). With `kafka`, only brokers and `security.protocol` are taken over from the worker; "
        "other settings have Java's names, such as `kafka.sasl.jaas.config`.",
        importance=Importance.LOW,
        group=_CLUSTER,
    )
    kafka_options: str = setting(
        "kafka.*",
        "",
        doc="Settings of Kafka clients, such as `kafka.bootstrap.servers`, over those of the worker: by default "
        "topics are those of the cluster that the worker belongs to. With another cluster, topics must be there "
        "already.",
        group=_CLUSTER,
    )
    spark_settings: str = setting(
        "spark.*",
        "",
        doc="Spark's settings, `spark.master` above all: `local[*]` by default, `spark://HOST:7077` for a cluster.",
        importance=Importance.HIGH,
        group=_SPARK,
    )

    @property
    def spark(self) -> Mapping[str, str]:
        """Return the settings that begin with `spark.`."""
        return self._spark

    @property
    def kafka(self) -> Mapping[str, str]:
        """Return the settings of Kafka clients, with `kafka.` before their names."""
        return self._kafka

    def one(self, prefix: str) -> NestedConfig:
        """Return the nested configuration behind a prefix without names."""
        return self._nested[prefix][""]

    def named(self, prefix: str) -> Mapping[str, NestedConfig]:
        """Return the nested configurations behind a prefix with names, in the names' order."""
        return self._nested[prefix]

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Return the configuration that users' settings say.

        Raises:
            InvalidConfig: lists everything that is wrong, below the prefixes, too.
        """
        problems: list[Problem] = []
        parsed = collected(problems, super().parse, settings)
        nested = {prefix: cls._parse_nested(prefix, settings, problems) for prefix in cls.nested}
        if parsed is None or problems:
            raise InvalidConfig(problems)
        parsed._nested = nested  # noqa: SLF001 - it is frozen but for this
        parsed._spark = _beginning(settings, SPARK)  # noqa: SLF001
        parsed._kafka = _beginning(settings, KAFKA)  # noqa: SLF001
        if wrong := tuple(parsed.check_nested()):
            raise InvalidConfig(wrong)
        return parsed

    @property
    def writes_topic(self) -> bool:
        """Return whether a topic is among the outputs."""
        return False

    @property
    def exactly_once_keys(self) -> Iterable[str]:
        """Return the settings that ask for topics to be written exactly once."""
        return ()

    def check_nested(self) -> Iterable[Problem]:
        """Return what is wrong with all settings together, when each nested configuration is right by itself."""
        if self.writes_topic and self.spark.get(SPECULATION, "").strip().lower() == "true":
            yield Problem(SPECULATION, SPECULATION_PROBLEM)
        if self.kafka_source == "kafka":
            yield from (Problem(key, EXACTLY_ONCE_PROBLEM) for key in self.exactly_once_keys)

    @classmethod
    def _parse_nested(
        cls, prefix: str, settings: Mapping[str, str], problems: list[Problem]
    ) -> dict[str, NestedConfig]:
        parsed = {}
        for name in cls._names(prefix, settings, problems):
            full = prefix.replace(NAME, name)
            model = collected(problems, cls.nested[prefix].parse, below(settings, full), full)
            if model is not None:
                parsed[name] = model
        return parsed

    @classmethod
    def _names(cls, prefix: str, settings: Mapping[str, str], problems: list[Problem]) -> list[str]:
        if NAME not in prefix:
            return [""]
        key = cls.names_keys[prefix]
        names = [name.strip() for name in settings.get(key, "").split(",") if name.strip()]
        outer = prefix.partition(NAME)[0]
        problems += _of_no_name(outer, key, names, settings)
        return names


def _beginning(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key.startswith(prefix) and key != SOURCE_KEY}


def _of_no_name(outer: str, names_key: str, names: list[str], settings: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each key whose name is not listed."""
    for key in below(settings, outer):
        name, _, rest = key.partition(".")
        if name not in names:
            yield Problem(outer + key, f"{name!r} is not among the names in {names_key}" if rest else "has no name")
