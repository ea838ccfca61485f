"""The options of a query that reads, checked all together before anything is asked of a cluster.

Names, defaults and rules are those of Spark's own Kafka source (its `KafkaSourceProvider`). As there, options that
nobody knows are ignored, and where a position is given in several ways a timestamp for all partitions wins over
timestamps per partition, and those over offsets. `commitGroupId` is Ottla's.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from ottla_sdk import InvalidConfig, Problem
from ottla_spark.datasource.client_options import ClientKind, Settings, librdkafka_settings
from ottla_spark.datasource.offsets import (
    Partition,
    named,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
)
from ottla_spark.datasource.positions import (
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Position,
    backward_partitions,
    is_earliest,
    is_latest,
    named_partitions,
)
from ottla_spark.datasource.record_filters import Comparison, parse_comparisons

log = logging.getLogger(__name__)

QueryKind = Literal["batch", "stream"]
Parsed = TypeVar("Parsed")

POLL_TIMEOUT_DEFAULT_MS = 120_000
FETCH_OFFSET_ATTEMPTS_DEFAULT = 3
FETCH_OFFSET_PAUSE_DEFAULT_MS = 1_000
TRIGGER_DELAY_DEFAULT_MS = 15 * 60_000
GROUP_PREFIX_DEFAULT = "ottla-spark"

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "commitGroupId")
BATCH_ONLY = ("recordFilters", "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
STRATEGIES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Names:
    """All partitions of these topics."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """All partitions of topics whose whole name matches; internal ones do not count."""

    regex: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions."""

    partitions: frozenset[Partition]


Topics = Names | Pattern | Assigned


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a query reads and how.

    Attributes:
        topics: which topics or partitions.
        starting: where to begin.
        ending: where to end; a stream never ends.
        unmatched_start: what to do if no record is as late as a starting timestamp.
        fail_on_data_loss: whether records that are gone fail the query.
        partitions_min: about how many tasks there shall be at least.
        records_per_partition_max: how many offsets a task may have.
        offsets_per_trigger_max: about how many offsets a batch of a stream reads.
        offsets_per_trigger_min: how many there have to be for a batch of a stream, unless it waited for too long.
        trigger_delay_max_ms: how long a batch may wait for them.
        include_headers: whether there is a column of headers.
        comparisons: conditions that every record fulfils that is wanted, of a batch.
        include_content: whether keys and values are read; otherwise they are null.
        poll_timeout_ms: how long a task may wait for a record.
        fetch_offset_attempts: how often brokers are asked for offsets.
        fetch_offset_pause_ms: how long to wait before asking again.
        commit_group_id: the group to which a stream commits what it has read; empty for none.
        consumer_settings: librdkafka's, of the tasks.
        admin_settings: librdkafka's, of the driver.
    """

    topics: Topics
    starting: Position
    ending: Position
    unmatched_start: Literal["error", "latest"]
    fail_on_data_loss: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_max_ms: int
    include_headers: bool
    comparisons: tuple[Comparison, ...]
    include_content: bool
    poll_timeout_ms: int
    fetch_offset_attempts: int
    fetch_offset_pause_ms: int
    commit_group_id: str
    consumer_settings: Settings
    admin_settings: Settings


def read_options(options: Mapping[str, str], *, kind: QueryKind) -> ReadOptions:
    """Return what the options mean.

    Args:
        options: as a user wrote them; names in any case.
        kind: of the query.

    Raises:
        InvalidConfig: lists everything that is wrong.
    """
    return _Reading(options, kind).result()


def includes_headers(options: Mapping[str, str]) -> bool:
    """Return whether there is a column of headers; anything but "true" counts as no, for `read_options` to refuse."""
    return {key.lower(): value for key, value in options.items()}.get("includeheaders", "").strip().lower() == "true"


class _Reading:
    """Reads option after option, and collects what is wrong."""

    def __init__(self, options: Mapping[str, str], kind: QueryKind) -> None:
        self._options = options
        self._written = {key.lower(): value.strip() for key, value in options.items()}
        self._kind = kind
        self._problems: list[Problem] = []

    def result(self) -> ReadOptions:
        topics = self._topics()
        default_start: Position = Earliest() if self._kind == "batch" else Latest()
        starting = self._position("starting", default_start)
        ending = self._position("ending", Latest())
        self._check_positions(topics, starting, ending)
        self._check_kind()
        offsets_max = self._number("maxOffsetsPerTrigger", lowest=1)
        offsets_min = self._number("minOffsetsPerTrigger", lowest=1)
        if offsets_max is not None and offsets_min is not None and offsets_min > offsets_max:
            self._wrong("minOffsetsPerTrigger", f"{offsets_min} is more than maxOffsetsPerTrigger ({offsets_max})")
        result = ReadOptions(
            topics=topics,
            starting=starting,
            ending=ending,
            unmatched_start=self._unmatched_start(),
            fail_on_data_loss=self._flag("failOnDataLoss", default=True),
            partitions_min=self._number("minPartitions", lowest=1),
            records_per_partition_max=self._number("maxRecordsPerPartition", lowest=1),
            offsets_per_trigger_max=offsets_max,
            offsets_per_trigger_min=offsets_min,
            trigger_delay_max_ms=self._parsed("maxTriggerDelay", parse_duration_ms, TRIGGER_DELAY_DEFAULT_MS),
            include_headers=self._flag("includeHeaders", default=False),
            comparisons=self._parsed("recordFilters", parse_comparisons, ()),
            include_content=self._flag("includeContent", default=True),
            poll_timeout_ms=self._number("kafkaConsumer.pollTimeoutMs", lowest=1) or POLL_TIMEOUT_DEFAULT_MS,
            fetch_offset_attempts=self._number("fetchOffset.numRetries", lowest=1) or FETCH_OFFSET_ATTEMPTS_DEFAULT,
            fetch_offset_pause_ms=self._pause_ms(),
            commit_group_id=self._written.get("commitgroupid", ""),
            consumer_settings=self._consumer_settings(),
            admin_settings=self._client_settings("admin"),
        )
        if self._problems:
            raise InvalidConfig(dict.fromkeys(self._problems))
        return result

    def _topics(self) -> Topics:
        given = [name for name in STRATEGIES if name.lower() in self._written]
        if len(given) != 1:
            found = " and ".join(given) if given else "none"
            self._wrong("", f"exactly one of the options {', '.join(STRATEGIES)} says what to read, got {found}")
        if "subscribe" in given:
            names = frozenset(name.strip() for name in self._written["subscribe"].split(",") if name.strip())
            if not names:
                self._wrong("subscribe", "names no topic")
            return Names(names)
        if "subscribePattern" in given:
            return Pattern(self._parsed("subscribePattern", _regex, ""))
        return Assigned(self._parsed("assign", parse_partitions, frozenset()))

    def _position(self, which: Literal["starting", "ending"], default: Position) -> Position:
        if f"{which}timestamp" in self._written:
            return self._parsed(f"{which}Timestamp", lambda text: AtTimestamp(_whole(text, 0)), default)
        if f"{which}offsetsbytimestamp" in self._written:
            return self._parsed(
                f"{which}OffsetsByTimestamp", lambda text: AtTimestamps(parse_timestamps(text)), default
            )
        return self._parsed(f"{which}Offsets", _offsets_position, default)

    def _check_positions(self, topics: Topics, starting: Position, ending: Position) -> None:
        if self._kind == "stream":
            return
        if _any_partition(starting, is_latest):
            self._wrong(
                "startingOffsets", "a batch cannot start at the latest offsets (latest, -1): it would read nothing"
            )
        if _any_partition(ending, is_earliest):
            self._wrong(
                "endingOffsets", "a batch cannot end at the earliest offsets (earliest, -2): it would read nothing"
            )
        first, last = named_partitions(starting), named_partitions(ending)
        if type(starting) is type(ending) and first is not None and last is not None and first != last:
            self._wrong(
                "",
                f"starting and ending offsets have to name the same partitions; only one names {named(first ^ last)}",
            )
        for topic, partition in backward_partitions(starting, ending):
            self._wrong("", f"partition {partition} of topic {topic} starts after its end")
        for key, partitions in (("startingOffsets", first), ("endingOffsets", last)):
            if isinstance(topics, Assigned) and topics.partitions and partitions not in (None, topics.partitions):
                self._wrong(key, f"has to name the partitions of assign ({named(topics.partitions)}) and no others")

    def _check_kind(self) -> None:
        if self._kind == "stream":
            for name in BATCH_ONLY:
                if name.lower() in self._written:
                    self._wrong(name, "a stream has no end; remove it, or read a batch")
            return
        for name in STREAM_ONLY:
            if name.lower() in self._written:
                log.warning("the option %s has no effect on a batch", name)

    def _unmatched_start(self) -> Literal["error", "latest"]:
        value = self._written.get("startingoffsetsbytimestampstrategy", "error").lower()
        if value in ("error", "latest"):
            return "error" if value == "error" else "latest"
        self._wrong("startingOffsetsByTimestampStrategy", f"has to be error or latest, got {value!r}")
        return "error"

    def _consumer_settings(self) -> Settings:
        settings = self._client_settings("consumer")
        prefix = self._written.get("groupidprefix", GROUP_PREFIX_DEFAULT)
        # Nothing is committed to it and no partition given out by it: it is a name that brokers may have to allow.
        return {"group.id": f"{prefix}-reader", **settings}

    def _client_settings(self, kind: ClientKind) -> Settings:
        try:
            return librdkafka_settings(self._options, kind=kind)
        except InvalidConfig as error:
            self._problems += error.problems
            return {}

    def _pause_ms(self) -> int:
        pause_ms = self._number("fetchOffset.retryIntervalMs", lowest=0)
        return FETCH_OFFSET_PAUSE_DEFAULT_MS if pause_ms is None else pause_ms

    def _number(self, key: str, *, lowest: int) -> int | None:
        return self._parsed(key, lambda text: _whole(text, lowest), None)

    def _flag(self, key: str, *, default: bool) -> bool:
        return self._parsed(key, _boolean, default)

    def _parsed(self, key: str, parse: Callable[[str], Parsed], default: Parsed) -> Parsed:
        text = self._written.get(key.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self._wrong(key, str(error))
            return default

    def _wrong(self, key: str, message: str) -> None:
        self._problems.append(Problem(key, message))


DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


def parse_duration_ms(text: str) -> int:
    """Return milliseconds of a duration as Spark writes it: `15m`, `90s`, or a number of milliseconds.

    Raises:
        ValueError: it is something else.
    """
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None or match[2] not in DURATION_UNITS_MS:
        raise ValueError(f"expected a duration such as 15m, 90s or 500ms, got {text!r}")
    return int(match[1]) * DURATION_UNITS_MS[match[2]]


def _any_partition(position: Position, test: Callable[[Position, Partition], bool]) -> bool:
    return test(position, ("", -1)) or any(test(position, each) for each in named_partitions(position) or ())


def _offsets_position(text: str) -> Position:
    match text.lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case _:
            try:
                return AtOffsets(parse_offsets(text))
            except ValueError as error:
                raise ValueError(f"has to be earliest, latest or offsets per partition: {error}") from None


def _whole(text: str, lowest: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) < lowest:
        raise ValueError(f"has to be a whole number of at least {lowest}, got {text!r}")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"has to be true or false, got {text!r}")
    return text.lower() == "true"


def _regex(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text
