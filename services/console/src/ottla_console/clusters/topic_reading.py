"""Messages of a topic, read by a user's own connection, in a thread: always bounded."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.returned_memory import return_freed
from ottla_console.views.message_field import NOT_DECODED, Decode
from ottla_console.views.message_query import MessageQuery
from ottla_operations.errors import OperationError
from ottla_operations.groups.inspection import log_offsets
from ottla_operations.records.bounded_reading import Bounds, Looked, Matches, look
from ottla_operations.records.field_codec import BadField
from ottla_operations.records.reading_plan import Spans, clamped
from ottla_operations.records.record_line import Record
from ottla_operations.records.record_masking import Mask
from ottla_operations.records.record_search import parsed_json, search
from ottla_operations.records.start_offset import Anchor
from ottla_operations.schemas.schema_codec import SchemaCodec, is_framed

PAGE_RECORDS: Final = 50
DOWNLOAD_RECORDS_MAX: Final = 10_000
COPIED_BYTES_MAX: Final = 1_000_000
KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
SEARCHED_RECORDS_MAX: Final = 1_000_000
SEARCHED_BYTES_MAX: Final = 512 * 1024 * 1024
WITHIN_S: Final = 6.0
"""How long one request looks; a page says how far it came, and goes on from there."""
ANSWER_WITHIN_S: Final = 20.0
OFFSETS_AT_ONCE: Final = 2_000
ONE_RECORD: Final = Bounds(
    wanted=1, records_max=1, kept_bytes_max=KEPT_BYTES_MAX, bytes_max=KEPT_BYTES_MAX, within_s=WITHIN_S, block=1
)


@dataclass(frozen=True, slots=True)
class Read:
    """What a query found.

    Attributes:
        looked: it, masked for who asked.
        logs: where the partitions' logs begin and end.
        decode: what decodes its keys and values; None without a schema registry.
    """

    looked: Looked
    logs: Spans
    decode: "SchemaDecoder | None"


def read_messages(
    kit: ClusterKit,
    mask: Mask,
    topic: str,
    partitions: int,
    query: MessageQuery,
    *,
    wanted: int,
    kept_bytes_max: int = KEPT_BYTES_MAX,
    at_once: int = OFFSETS_AT_ONCE,
) -> Read:
    """Return what a query asks for, as it may be shown; in a thread.

    Args:
        kit: the user's connections.
        mask: hides what the user may not see.
        topic: that is read.
        partitions: how many it has.
        query: what is asked for.
        wanted: messages, at most.
        kept_bytes_max: of keys and values, a single message aside.
        at_once: offsets that are looked at first.

    Raises:
        OperationError: the cluster does not answer, or refuses.
        BadSearch: the search cannot be read.
    """
    decode = decoder(kit)
    matches = None
    if query.words:
        matches = _matches_shown(search(query.words, query.where, to_json_by(decode)), mask, decode)
    chosen = range(partitions) if query.partition is None else [query.partition]
    logs = _logs(kit, topic, list(chosen))
    place = clamped(query.place, logs) if query.place is not None else _first_place(kit, topic, logs, query)
    bounds = Bounds(
        wanted=wanted,
        records_max=SEARCHED_RECORDS_MAX,
        kept_bytes_max=kept_bytes_max,
        bytes_max=SEARCHED_BYTES_MAX,
        within_s=WITHIN_S,
        block=max(1, min(wanted, at_once // max(1, len(logs)))),
    )
    looked = look(kit.config, topic, logs, place, bounds, newest_first=query.newest_first, matches=matches)
    return_freed(looked.seen_bytes)
    return Read(replace(looked, records=[mask.record(each, decode) for each in looked.records]), logs, decode)


def _matches_shown(matches: Matches, mask: Mask, decode: "SchemaDecoder | None") -> Matches:
    """Return what judges records by what is shown of them, so that a search tells nothing of what is masked."""
    return (lambda record: matches(mask.record(record, decode))) if mask else matches


def read_one(kit: ClusterKit, mask: Mask, topic: str, partition: int, offset: int) -> Record | None:
    """Return the message at an offset, as it may be shown; None if there is none; in a thread.

    Raises:
        OperationError: the cluster does not answer, or refuses.
    """
    logs = _logs(kit, topic, [partition])
    if partition not in logs or not logs[partition][0] <= offset < logs[partition][1]:
        return None
    only = {partition: (offset, offset + 1)}
    looked = look(kit.config, topic, only, {partition: offset}, ONE_RECORD, newest_first=False)
    return mask.record(looked.records[0], decoder(kit) if mask else None) if looked.records else None


class SchemaDecoder:
    """Decodes keys and values with a schema; asks no more once the registry has failed, as each answer takes seconds.

    Attributes:
        problem: what the registry failed with, or None.

    Args:
        codec: asks the registry.
    """

    def __init__(self, codec: SchemaCodec) -> None:
        self._codec = codec
        self.problem: str | None = None

    def __call__(self, data: bytes) -> Any:
        """Return the JSON value; `NOT_DECODED` for what has no schema, or is not what its schema says."""
        if not is_framed(data) or self.problem is not None:
            return NOT_DECODED
        try:
            return self._codec.to_json(data) if self._codec.knows(data) else NOT_DECODED
        except BadField:
            return NOT_DECODED
        except OperationError as error:
            self.problem = str(error)
            return NOT_DECODED


def decoder(kit: ClusterKit) -> SchemaDecoder | None:
    """Return what decodes keys and values with a schema; None where no registry is configured; in a thread.

    Raises:
        OperationError: the registry's settings cannot be used.
    """
    codec = kit.schema_codec()
    return None if codec is None else SchemaDecoder(codec)


def to_json_by(decode: Decode | None) -> Callable[[bytes], Any]:
    """Return what makes JSON of a value for a search, by its schema if it has one."""
    if decode is None:
        return parsed_json

    def to_json(data: bytes) -> Any:
        decoded = decode(data)
        return parsed_json(data) if decoded is NOT_DECODED else decoded

    return to_json


def ends_of(kit: ClusterKit, topic: str, partitions: list[int]) -> dict[int, int]:
    """Return where partitions' logs end; in a thread.

    Raises:
        OperationError: the cluster does not answer, or refuses.
    """
    return {partition: end for partition, (_, end) in _logs(kit, topic, partitions).items()}


def _logs(kit: ClusterKit, topic: str, partitions: list[int]) -> dict[int, tuple[int, int]]:
    client, bootstrap = kit.admin_client(), kit.settings.bootstrap
    names = [(topic, each) for each in partitions]
    starts = log_offsets(client, names, OffsetSpec.earliest(), bootstrap, all_led=False)  # type: ignore[no-untyped-call]
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    committed = IsolationLevel.READ_COMMITTED  # of what lies behind, a consumer would wait for the transaction's end
    ends = log_offsets(client, names, latest, bootstrap, all_led=False, isolation=committed)
    return {name[1]: (starts[name], ends[name]) for name in names if name in starts and name in ends}


def _first_place(kit: ClusterKit, topic: str, logs: Spans, query: MessageQuery) -> dict[int, int]:
    """Return where the first page begins: in each partition within what its log holds."""
    wanted: dict[int, int] = {}
    at = None
    if query.start is not None and query.start.anchor is Anchor.TIME_MS:
        spec = OffsetSpec.for_timestamp(query.start.number)
        names = [(topic, each) for each in logs]
        at = log_offsets(kit.admin_client(), names, spec, kit.settings.bootstrap, all_led=False)
    for partition, (first, end) in logs.items():
        match query.start:
            case None:
                wanted[partition] = end if query.newest_first else first
            case start if start.anchor is Anchor.EARLIEST:
                wanted[partition] = first
            case start if start.anchor is Anchor.LATEST:
                wanted[partition] = end
            case start if start.anchor is Anchor.BEFORE_END:
                wanted[partition] = end - start.number
            case start if start.anchor is Anchor.OFFSET:
                wanted[partition] = start.number + (1 if query.newest_first else 0)
            case _:
                wanted[partition] = end if at is None else at.get((topic, partition), end)
    return clamped(wanted, logs)
