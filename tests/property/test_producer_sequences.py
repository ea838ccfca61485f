"""Producer state agrees with an oracle that remembers every batch ever accepted, and comes back at a restart."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla_broker.log.producers.producer_snapshot import decode_snapshot, encode_snapshot
from ottla_broker.log.producers.producer_state import RETAINED_BATCHES, ProducerStates
from ottla_core.errors import DuplicateSequenceNumber, InvalidProducerEpoch, OutOfOrderSequenceNumber
from ottla_core.wire.record_batch import RecordBatchHeader
from tests.support.broker.partition_logs import NOW_MS, PARTITION, append, open_log, small_segments

WRAP = 2**31
sequences = st.integers(0, 12) | st.integers(WRAP - 6, WRAP - 1)
batches = st.tuples(st.integers(1, 2), st.integers(0, 2), sequences, st.integers(1, 4))


class Oracle:
    """The rules in prose, over complete histories: producer id to epoch to accepted batches."""

    def __init__(self) -> None:
        self.histories: dict[int, list[tuple[int, int, int, int]]] = {}

    def verdict(self, producer_id: int, epoch: int, sequence: int, count: int) -> object:
        history = self.histories.get(producer_id)
        if not history:
            return "append"
        current = history[-1][0]
        if epoch < current:
            return InvalidProducerEpoch
        if epoch > current:
            return "append" if sequence == 0 else OutOfOrderSequenceNumber
        recent = [entry for entry in history if entry[0] == current][-RETAINED_BATCHES:]
        if sequence == (recent[-1][1] + recent[-1][2]) % WRAP:
            return "append"
        for _, first, length, offset in recent:
            if (first, length) == (sequence, count):
                return offset
        earlier = [entry for entry in history if entry[0] == current][:-RETAINED_BATCHES]
        stored = [(first + number) % WRAP for _, first, length, _ in earlier for number in range(length)]
        repeated = [(sequence + number) % WRAP for number in range(count)]
        if any(stored[start : start + count] == repeated for start in range(len(stored))):
            return ("in the log before", recent[0][3])
        return OutOfOrderSequenceNumber

    def accept(self, producer_id: int, epoch: int, sequence: int, count: int, offset: int) -> None:
        self.histories.setdefault(producer_id, []).append((epoch, sequence, count, offset))


@given(st.lists(batches, max_size=60))
def test_verdicts_match_the_oracle(attempts: list[tuple[int, int, int, int]]) -> None:
    states, oracle, offset = ProducerStates(PARTITION), Oracle(), 0
    for producer_id, drawn_epoch, drawn_sequence, count in attempts:
        epoch, sequence = drawn_epoch, drawn_sequence
        history = oracle.histories.get(producer_id, [])
        # Half of the time continue where the producer is, so that long sequences come about.
        if history and sequence % 2:
            epoch, sequence = history[-1][0], (history[-1][1] + history[-1][2]) % WRAP
        header = RecordBatchHeader(0, 0, 0, 2, 0, 0, count - 1, 0, 0, producer_id, epoch, sequence, count)
        verdict: object = "append"
        try:
            duplicate = states.check(header)
            if duplicate is not None:
                verdict = duplicate.base_offset
        except DuplicateSequenceNumber as repeated:
            verdict = ("in the log before", repeated.end_offset)
        except (InvalidProducerEpoch, OutOfOrderSequenceNumber) as error:
            verdict = type(error)
        assert verdict == oracle.verdict(producer_id, epoch, sequence, count)
        if verdict == "append":
            states.record(header, offset + count - 1, 0)
            oracle.accept(producer_id, epoch, sequence, count, offset)
            offset += count
    restored = {entry.producer_id: entry for entry in decode_snapshot(encode_snapshot(states))}
    for entry in states:
        assert restored[entry.producer_id].last_sequence == entry.last_sequence
        assert restored[entry.producer_id].producer_epoch == entry.producer_epoch


# A producer, whether it begins an epoch, and how many records; None rolls, and a number cuts off so many batches.
steps = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([False] * 6 + [True]), st.integers(1, 3))
    | st.none()
    | st.integers(1, 3),
    max_size=25,
)


@given(steps)
def test_a_restart_forgets_no_batch(drawn: list[tuple[int, bool, int] | int | None]) -> None:
    config = small_segments(segment_bytes=4000)
    with tempfile.TemporaryDirectory(prefix="producers-") as directory:
        log = open_log(Path(directory), config=config)
        written: list[tuple[int, int, int, int, int]] = []  # base offset, producer, epoch, sequence, records
        rolls = 0
        for step in drawn:
            if step is None:
                if rolls < 2 and log.segments.active.size_bytes:
                    log.roll(NOW_MS)
                    rolls += 1
            elif isinstance(step, int):
                if written:
                    log.truncate_to(written[-step:][0][0], NOW_MS)
                    del written[-step:]
            else:
                producer_id, is_new_epoch, count = step
                last = next((batch for batch in reversed(written) if batch[1] == producer_id), None)
                epoch, sequence = (last[2], last[3] + last[4]) if last else (0, 0)
                if is_new_epoch:
                    epoch, sequence = epoch + 1, 0
                appended = append(log, *[b"v"] * count, producer=(producer_id, epoch, sequence), leader_epoch=1)
                written.append((appended.base_offset, producer_id, epoch, sequence, count))
        log.close()
        log = open_log(Path(directory), config=config)
        for producer_id in {batch[1] for batch in written}:
            entry = log.producers.get(producer_id)
            assert entry is not None
            own = [batch for batch in written if batch[1] == producer_id and batch[2] == entry.producer_epoch]
            expected = [(sequence, offset) for offset, _, _, sequence, _ in own[-RETAINED_BATCHES:]]
            assert [(batch.first_sequence, batch.base_offset) for batch in entry.batches] == expected
        log.abandon()
