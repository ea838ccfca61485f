"""Transforms that choose another topic: RegexRouter and TimestampRouter. Pure."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from ottla_sdk import ConnectRecord, DataError, Importance, PluginConfig, Problem, Transform, setting
from ottla_standard.java_date_format import Calendar, compile_format
from ottla_standard.java_regex import JavaPattern, compile_replacement
from ottla_standard.transforms.part import java_names


class RegexRouterConfig(PluginConfig):
    """Settings of `RegexRouter`."""

    regex: JavaPattern = setting(
        "regex", doc="The pattern that a whole topic name must match.", importance=Importance.HIGH
    )
    replacement: str = setting(
        "replacement", doc="The new name; `$1` or `${name}` stand for groups.", importance=Importance.HIGH
    )

    def check(self) -> Iterable[Problem]:
        """Look for the groups."""
        try:
            compile_replacement(self.regex, self.replacement)
        except ValueError as error:
            yield Problem("replacement", str(error))


class RegexRouter(Transform[RegexRouterConfig]):
    """Gives topics whose names match a pattern other names."""

    config_model = RegexRouterConfig
    aliases = java_names("RegexRouter")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._replacement = compile_replacement(self.config.regex, self.config.replacement)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record for the other topic."""
        regex = self.config.regex
        if regex.fullmatch(record.topic) is None:
            return record
        return record.replaced(topic=regex.sub(self._replacement, record.topic, count=1))


def _date_problems(key: str, pattern: str) -> Iterable[Problem]:
    try:
        compile_format(pattern, this_year=1970)
    except ValueError as error:
        yield Problem(key, str(error))


class TimestampRouterConfig(PluginConfig):
    """Settings of `TimestampRouter`."""

    topic_format: str = setting(
        "topic.format",
        "${topic}-${timestamp}",
        doc="The new name; `${topic}` and `${timestamp}` stand for the old one and the record's time.",
        importance=Importance.HIGH,
    )
    timestamp_format: str = setting(
        "timestamp.format",
        "yyyyMMdd",
        doc="How the time, in UTC, is written: a pattern of Java's SimpleDateFormat.",
        importance=Importance.HIGH,
    )

    def check(self) -> Iterable[Problem]:
        """Compile the pattern."""
        return _date_problems("timestamp.format", self.timestamp_format)


class TimestampRouter(Transform[TimestampRouterConfig]):
    """Puts records into topics by their time, such as one a day."""

    calendar: ClassVar[Calendar]
    # It says which century two digits of a year mean; the package sets it.
    config_model = TimestampRouterConfig
    aliases = java_names("TimestampRouter")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._format = compile_format(self.config.timestamp_format, this_year=self.calendar.this_year())

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record for the other topic."""
        if record.timestamp_ms is None:
            raise DataError(f"a record of {record.topic} has no timestamp to choose a topic by")
        time = self._format.format(record.timestamp_ms)
        # The topic last would let a topic's name bring in a ${timestamp} of its own, as in Kafka.
        return record.replaced(
            topic=self.config.topic_format.replace("${topic}", record.topic).replace("${timestamp}", time)
        )
