"""Messages of a topic as they arrive, for one browser: so many at a time, so many browsers, so many minutes."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.clusters.topic_reading import decoder, ends_of, to_json_by
from ottla_console.views.message_field import PREVIEW_CHARACTERS
from ottla_console.views.message_query import MessageQuery
from ottla_console.views.message_rows import MessageRow, message_row
from ottla_operations.errors import OperationError
from ottla_operations.records.live_reading import LiveReading
from ottla_operations.records.reading_plan import Place
from ottla_operations.records.record_masking import Mask
from ottla_operations.records.record_search import search

TAILS_MAX: Final = 20
ROWS_SHOWN: Final = 50
RECORDS_AT_ONCE: Final = 2_000
EVERY_S: Final = 0.5
LASTS_S: Final = 15 * 60.0


class Tails:
    """How many there are, and whether the console is about to end.

    Attributes:
        ending: set when all have to end.
    """

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self.open = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place.

        Raises:
            OperationError: none is free.
        """
        if self.open >= TAILS_MAX:
            raise OperationError(f"{TAILS_MAX} browsers look at arriving messages, and no more may; try again later")
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


class TopicTail:
    """The newest messages that are like a search, of those that have arrived since it began.

    All of it is for threads, and several may use it.

    Args:
        kit: the user's connections.
        mask: hides what the user may not see.
        topic: that is read.
        partitions: how many it has.
        query: which messages are shown, and where to begin; at the end if it says nothing.

    Attributes:
        rows: newest first.
        seen: messages that have arrived.
        found: those of them that are like the search.
        passed_over: offsets that were not looked at, since too much arrived.

    Raises:
        OperationError: the cluster does not answer, or refuses.
        BadSearch: the search cannot be read.
    """

    def __init__(self, kit: ClusterKit, mask: Mask, topic: str, partitions: int, query: MessageQuery) -> None:
        self._mask = mask
        self._decode = decoder(kit)
        self._matches = search(query.words, query.where, to_json_by(self._decode)) if query.words else None
        chosen = list(range(partitions)) if query.partition is None else [query.partition]
        ends = ends_of(kit, topic, chosen)
        begin = {each: min((query.place or ends).get(each, end), end) for each, end in ends.items()}
        self._lock = threading.Lock()
        self._is_closed = False
        self._reading = LiveReading(kit.config, topic, begin)
        self._rows: deque[MessageRow] = deque(maxlen=ROWS_SHOWN)
        self.seen = self.found = self.passed_over = 0

    @property
    def rows(self) -> Sequence[MessageRow]:
        """The newest that were found."""
        return list(self._rows)

    @property
    def place(self) -> Place:
        """Where it goes on."""
        return self._reading.place

    def step(self) -> bool:
        """Look at what has arrived, and return whether there was something.

        Raises:
            OperationError: the cluster refuses.
        """
        with self._lock:
            if self._is_closed:
                return False
            arrived = self._reading.take(RECORDS_AT_ONCE)
            shown = (self._mask.record(each, self._decode) for each in arrived.records)
            found = [each for each in shown if self._matches is None or self._matches(each)]
            self.seen += len(arrived.records)
            self.found += len(found)
            self.passed_over += arrived.passed_over
            for record in found[-ROWS_SHOWN:]:
                self._rows.appendleft(message_row(record, self._decode, PREVIEW_CHARACTERS))
            return bool(arrived.records or arrived.passed_over)

    def close(self) -> None:
        """End it, once no step is under way."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._reading.close()
