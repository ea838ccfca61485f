"""One partition as a state machine; whole histories are in `tests/property/test_partition_copy_model.py`."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.wire.record_batch import parse_header
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.needs import Need, Needed
from ottla_mirror.copy.partition_copy import IN_FLIGHT_MAX, PartitionCopy
from ottla_mirror.copy.partition_work import PartitionWork
from ottla_mirror.copy.source_batch import SourceBatch
from ottla_mirror.copy.takeover import Pairing, TargetScan
from ottla_mirror.model import SourcePartition
from ottla_mirror.offsets.leader_epochs import EpochStart
from ottla_mirror.offsets.map_chunk import Run
from ottla_mirror.offsets.offset_map import OffsetMap
from ottla_mirror.offsets.stored_copy import Session, StoredCopy

ZERO, WORKER, OTHER = UUID(int=0), UUID(int=1), UUID(int=2)
SHARED = Session(
    producer_id=9,
    producer_epoch=0,
    source_topic_id=ZERO,
    source_start_offset=0,
    target_topic_id=ZERO,
    target_start_offset=0,
    replaces=None,
)
OWN = replace(SHARED, owner=WORKER)


def batch(offset: int, count: int = 2, epoch: int = -1) -> bytes:
    return encode_batch(
        [Record(offset + n, 1, b"k", b"v%d" % (offset + n)) for n in range(count)], leader_epoch=epoch
    )


def copy_of(session: Session = SHARED, pairing: Pairing | None = None) -> PartitionCopy:
    stored = StoredCopy(session=session, next_sequence=0, map=OffsetMap(0, 0))
    return PartitionCopy(stored, pairing or Pairing((), 0, 0), WORKER)


def take(copy: PartitionCopy, *batches: bytes) -> None:
    copy.take(memoryview(bytearray(b"".join(batches))), (), high_watermark=100, last_stable_offset=-1)


def send_all(copy: PartitionCopy) -> list[SourceBatch]:
    return copy.next_to_send(IN_FLIGHT_MAX + 1)


def running(copy: PartitionCopy, count: int = 8) -> list[SourceBatch]:
    """Lets the first batch be acknowledged, after which several may be under way."""
    take(copy, *(batch(2 * number) for number in range(count)))
    assert len(send_all(copy)) == 1
    copy.on_acknowledged([0])
    return send_all(copy)


def sequences(entries: Sequence[SourceBatch]) -> list[int]:
    return [parse_header(each.data).base_sequence for each in entries]


def test_the_first_batch_goes_alone_and_then_five_at_a_time():
    copy = copy_of()
    sent = running(copy)
    assert len(sent) == IN_FLIGHT_MAX
    assert sequences(sent) == [2, 4, 6, 8, 10]
    assert send_all(copy) == []
    copy.on_acknowledged([2])
    assert sequences(send_all(copy)) == [12]


def test_after_a_pause_the_first_batch_goes_alone_again():
    copy = copy_of()
    running(copy, count=2)
    copy.on_acknowledged([2])
    take(copy, batch(4), batch(6))
    assert sequences(send_all(copy)) == [4]


def test_the_map_follows_the_acknowledged_batches_in_order():
    copy = copy_of()
    running(copy)
    copy.on_acknowledged([12])
    assert copy.map.source_end == 4
    copy.on_acknowledged([14])
    assert copy.map.source_end == 6
    assert list(copy.map.runs()) == [Run(0, 0, 2), Run(2, 12, 4)]
    assert (copy.next_sequence, copy.records) == (6, 6)


def test_nothing_is_sent_behind_a_failure_until_all_is_answered():
    copy = copy_of()
    sent = running(copy)
    copy.on_failed(ErrorCode.not_leader_or_follower, "")
    assert not copy.may_repeat
    for _ in sent[1:]:
        assert send_all(copy) == []
        copy.on_failed(ErrorCode.out_of_order_sequence_number, "")
    assert copy.may_repeat
    assert copy.needed is None, "what follows a failure is its consequence"
    copy.repeat()
    assert sequences(send_all(copy)) == [2], "alone, as it is unclear what the target knows"


@pytest.mark.parametrize("target_offset", [2, 4])
def test_batches_of_a_lost_connection_are_sent_again_even_those_that_were_acknowledged_behind_a_failure(
    target_offset: int,
):
    copy = copy_of()
    sent = running(copy)
    copy.on_failed(ErrorCode.none, "lost")
    copy.on_acknowledged([target_offset])
    assert copy.map.source_end == 2
    for _ in sent[2:]:
        copy.on_failed(ErrorCode.none, "lost")
    copy.repeat()
    assert len(send_all(copy)) == 1
    copy.on_acknowledged([2])
    assert sequences(send_all(copy)) == [4, 6, 8, 10, 12]


@pytest.mark.parametrize(
    "error", [ErrorCode.out_of_order_sequence_number, ErrorCode.invalid_producer_epoch, ErrorCode.unknown_producer_id]
)
def test_a_sequence_that_is_not_taken_makes_it_look(error: ErrorCode):
    copy = copy_of()
    take(copy, batch(0))
    assert send_all(copy)
    copy.on_failed(error, "")
    assert copy.needed is not None
    assert (copy.needed.need, copy.needed.source_offset) == (Need.LOOK, 0)


def test_an_acknowledgement_without_an_offset_or_with_an_earlier_one_makes_it_look():
    copy = copy_of()
    take(copy, batch(0))
    assert send_all(copy)
    copy.on_acknowledged([-1])
    assert copy.needed is not None
    assert copy.needed.need is Need.LOOK
    copy = copy_of()
    running(copy)
    copy.on_acknowledged([1])
    assert copy.needed is not None
    assert copy.needed.need is Need.LOOK
    assert copy.map.source_end == 2


def test_what_was_sent_is_kept_and_the_rest_fetched_again():
    copy = copy_of(OWN)
    take(copy, *(batch(2 * number + (number > 2), epoch=number // 6) for number in range(10)))
    sent = send_all(copy)
    before = [(each.base_offset, *sequences([each])) for each in copy._batches]
    copy.on_failed(ErrorCode.none, "no answer")
    copy.forget_unsent()
    assert [each.base_offset for each in copy._batches] == [0, 2, 4, 7, 9]
    assert copy._batches[0] is sent[0]
    assert copy.buffered_bytes == copy.unsent_bytes == sum(len(each.data) for each in copy._batches)
    assert (copy.fetch_offset, copy.last_leader_epoch) == (11, 0)
    take(copy, *(batch(2 * number + 1, epoch=number // 6) for number in range(5, 10)))
    assert [(each.base_offset, *sequences([each])) for each in copy._batches] == before
    assert copy.last_leader_epoch == 1
    copy.repeat()
    assert send_all(copy) == sent


def test_behind_markers_it_goes_on_though_the_rest_was_forgotten():
    copy = copy_of(OWN)
    take(copy, *(batch(2 * number) for number in range(IN_FLIGHT_MAX)))
    copy.begin_at(30)
    take(copy, batch(30))
    copy.forget_unsent()
    assert (copy.fetch_offset, copy.missed) == (30, 30 - 2 * IN_FLIGHT_MAX)


def test_what_retention_has_removed_behind_what_was_forgotten_is_counted_once():
    work = PartitionWork(SourcePartition(topic="t", topic_id=ZERO, partition=0), "t", 0.0)
    copy = copy_of(OWN)
    work.replace_copy(copy)
    copy.begin_at(4)
    take(copy, *(batch(4 + 2 * number) for number in range(IN_FLIGHT_MAX + 2)))
    kept_end = 4 + 2 * IN_FLIGHT_MAX
    copy.begin_at(30)
    take(copy, batch(30))
    copy.begin_at(40)
    missed = work.status().missed
    assert missed == 4 + (30 - kept_end - 4) + 8
    work.forget_unsent()
    assert copy.fetch_offset == kept_end
    assert work.status().missed == missed, "it is a counter"
    copy.begin_at(40)
    assert copy.missed == work.status().missed == 4 + 40 - kept_end
    copy.begin_at(50)
    work.replace_copy(copy_of(OWN))
    assert work.status().missed == 4 + 50 - kept_end


def test_another_history_of_the_source_is_not_found_again_and_a_gap_is():
    copy = copy_of()
    take(copy, batch(0))
    assert copy.knows_nothing_else
    take(copy, batch(8))
    assert not copy.takes()
    assert copy.knows_nothing_else
    parted = copy_of()
    take(parted, batch(0), batch(2))
    parted.part_at(2, "it has another history")
    assert not parted.knows_nothing_else
    parted = copy_of()
    parted.look("it is unclear")
    assert not parted.knows_nothing_else


def test_a_refused_batch_is_left_out_only_when_told_and_sequences_go_on_without_it():
    copy = copy_of(OWN)
    sent = running(copy)
    copy.on_failed(ErrorCode.message_too_large, "too large")
    for _ in sent[1:]:
        copy.on_failed(ErrorCode.out_of_order_sequence_number, "")
    assert copy.needed == (Need.REFUSED, 2, "message_too_large: too large")
    assert send_all(copy) == []
    assert copy.pass_over().base_offset == 2
    assert copy.map.source_end == 4
    (following,) = send_all(copy)
    assert (following.base_offset, sequences([following])) == (4, [2])
    copy.on_acknowledged([9])
    assert sequences(send_all(copy)) == [4, 6, 8, 10, 12]
    assert list(copy.map.runs()) == [Run(0, 0, 2), Run(4, 9, 2)]


def test_damage_ends_the_copy_when_all_before_it_is_acknowledged():
    copy = copy_of()
    broken = bytearray(encode_batch([Record(2, 1, b"k", b"v")], is_control=True, is_transactional=True))
    broken[8:12] = b"\0\0\0\5"
    take(copy, batch(0), bytes(broken))
    assert copy.needed is None
    assert send_all(copy)
    copy.on_acknowledged([0])
    assert copy.needed is not None
    assert (copy.needed.need, copy.needed.source_offset) == (Need.DAMAGED, 2)


def test_a_batch_that_does_not_match_its_crc_is_not_sent():
    copy = copy_of()
    broken = bytearray(batch(0))
    broken[-1] ^= 1
    take(copy, bytes(broken))
    assert send_all(copy) == []
    assert copy.needed is not None
    assert copy.needed.need is Need.DAMAGED


def test_behind_a_gap_only_the_owner_of_a_session_sends():
    copy = copy_of(OWN)
    take(copy, batch(5))
    assert len(send_all(copy)) == 1
    for session in (SHARED, replace(SHARED, owner=OTHER)):
        copy = copy_of(session)
        take(copy, batch(5))
        assert send_all(copy) == []
        assert copy.needed is not None
        assert (copy.needed.need, copy.needed.source_offset) == (Need.OWN_SESSION, 0)


def test_in_a_session_of_another_worker_nothing_is_sent_at_all():
    copy = copy_of(replace(SHARED, owner=OTHER))
    take(copy, batch(0))
    assert send_all(copy) == []
    assert copy.needed is not None
    assert copy.needed.need is Need.OWN_SESSION


def test_what_retention_has_removed_is_counted_and_the_map_has_a_gap():
    copy = copy_of(OWN)
    copy.begin_at(50)
    assert (copy.missed, copy.fetch_offset, copy.map.source_end) == (50, 50, 50)
    take(copy, batch(50))
    assert send_all(copy)
    copy.on_acknowledged([0])
    assert list(copy.map.runs()) == [Run(50, 0, 2)]


def written(*batches: tuple[int, int, bytes]) -> memoryview:
    """Batches as the target has them: of a sequence and an offset of their own."""
    log = b""
    for sequence, target_offset, data in batches:
        header = parse_header(data)
        records = [
            Record(target_offset + n, 1, b"k", b"v%d" % (header.base_offset + n)) for n in range(header.record_count)
        ]
        log += encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=sequence)
    return memoryview(log)


def test_what_retention_has_removed_is_counted_once_though_the_copy_is_taken_over_before_it():
    work = PartitionWork(SourcePartition(topic="t", topic_id=ZERO, partition=0), "t", 0.0)
    for _ in range(2):
        work.replace_copy(copy := copy_of(OWN))
        take(copy, batch(0))
        copy.begin_at(10)
        take(copy, batch(10))
        work.replace_copy(None)
        assert work.status().missed == 8
    work.replace_copy(copy := copy_of(OWN))
    take(copy, batch(0))
    copy.begin_at(10)
    send_all(copy)
    copy.on_acknowledged([0])
    work.replace_copy(copy_of(OWN))
    assert work.status().missed == 8
    copy_of_the_rest = work.copy
    assert copy_of_the_rest is not None
    copy_of_the_rest.begin_at(3)
    assert work.status().missed == 11


def test_how_far_a_partition_is_behind_stays_known_while_it_is_taken_over_anew():
    """Else nobody would be told of it for as long as its target has no leader."""
    work = PartitionWork(SourcePartition(topic="t", topic_id=ZERO, partition=0), "t", 0.0)
    assert (work.status().source_offset, work.status().source_end, work.status().lag) == (-1, -1, -1)
    work.replace_copy(copy := copy_of())
    take(copy, batch(0), batch(2))
    send_all(copy)
    copy.on_acknowledged([5])
    for following in (None, copy_of()):
        work.replace_copy(following)
        status = work.status()
        assert (status.source_end, status.lag > 0) == (100, True)
        if following is None:
            assert (status.source_offset, status.target_end, status.lag, status.unknown) == (2, 7, 98, 0)
    at_end = copy_of()
    at_end.map.skip_to(100)
    work.replace_copy(at_end)
    assert (work.status().source_end, work.status().lag) == (-1, -1), "the source may have more by now"


def test_what_the_target_has_is_not_sent_again():
    scan = TargetScan(SHARED.name, 0, 0)
    scan.take(written((0, 3, batch(0)), (2, 9, batch(2))))
    assert scan.next_offset == 11
    copy = copy_of(SHARED, Pairing(scan.found, 0, 0))
    take(copy, batch(0), batch(2), batch(4))
    assert sequences(send_all(copy)) == [4]
    assert list(copy.map.runs()) == [Run(0, 3, 2), Run(2, 9, 2)]


def test_a_source_that_has_markers_only_has_no_lag_though_the_position_waits_for_a_record():
    scan = TargetScan(SHARED.name, 0, 0)
    scan.take(written((0, 3, batch(0))))
    copy = copy_of(SHARED, Pairing(scan.found, 0, 0))
    copy.begin_at(98)
    assert copy.lag == 0  # before the source's first answer
    marker = encode_batch(
        [Record(98, 1, bytes(4), bytes(6)), Record(99, 1, bytes(4), bytes(6))],
        producer_id=7, is_transactional=True, is_control=True,
    )  # fmt: skip
    copy.take(memoryview(bytearray(marker[:0])), (), high_watermark=100, last_stable_offset=-1)
    assert copy.lag == 2
    take(copy, marker)
    assert (copy.lag, copy.map.source_end) == (0, 0)
    take(copy, batch(100))
    assert copy.lag == 100


def test_what_the_target_has_of_others_or_from_before_is_not_found():
    scan = TargetScan(SHARED.name, 2, 0)
    scan.take(written((0, 3, batch(0)), (2, 9, batch(2)), (2, 11, batch(2))))
    assert [each.target_offset for each in scan.found] == [9]
    scan = TargetScan(SHARED.name._replace(producer_epoch=1), 0, 0)
    scan.take(written((0, 3, batch(0))))
    assert scan.found == []


def test_a_source_with_other_records_than_the_target_has_parted():
    scan = TargetScan(SHARED.name, 0, 0, with_records=True)
    scan.take(written((0, 3, batch(0)), (2, 5, batch(90))))
    copy = copy_of(SHARED, Pairing(scan.found, 0, 0))
    take(copy, batch(0), batch(2))
    assert copy.needed is not None
    assert (copy.needed.need, copy.needed.source_offset) == (Need.NEW_SESSION, 2)
    assert copy.map.source_end == 2


def test_sequences_that_are_missing_without_a_gap_in_the_target_are_not_taken_for_copied():
    scan = TargetScan(SHARED.name, 0, 0)
    scan.take(written((4, 0, batch(4))))
    copy = copy_of(SHARED, Pairing(scan.found, 0, 0))
    take(copy, batch(0))
    assert copy.needed is not None
    assert (copy.needed.need, copy.needed.source_offset) == (Need.NEW_SESSION, 0)


def test_what_the_targets_retention_has_removed_is_not_sent_again():
    scan = TargetScan(SHARED.name, 0, 0)
    scan.begin_at(4)
    scan.take(written((4, 4, batch(4))))
    copy = copy_of(SHARED, Pairing(scan.found, 0, 0))
    take(copy, batch(0), batch(2), batch(4), batch(6))
    assert sequences(send_all(copy)) == [6]
    assert list(copy.map.runs()) == [Run(4, 4, 2)]


def test_the_epochs_of_what_is_acknowledged_are_kept_and_named_by_who_takes_over():
    copy = copy_of()
    take(copy, batch(0, epoch=3), batch(2, epoch=3), batch(4, epoch=5))
    assert copy.last_leader_epoch == 5
    assert len(send_all(copy)) == 1
    copy.on_acknowledged([0])
    assert copy.copied.epochs == (EpochStart(3, 0),)
    next_copy = PartitionCopy(copy.copied, Pairing((), copy.next_sequence, 2), WORKER)
    assert (next_copy.fetch_offset, next_copy.last_leader_epoch) == (2, 3)
    for number in range(len(send_all(copy))):
        copy.on_acknowledged([2 + 2 * number])
    assert copy.copied.epochs == (EpochStart(3, 0), EpochStart(5, 4))


def test_behind_what_retention_has_removed_no_epoch_is_known():
    copy = copy_of()
    take(copy, batch(0, epoch=3))
    assert send_all(copy)
    copy.on_acknowledged([0])
    copy.begin_at(50)
    assert (copy.last_leader_epoch, copy.copied.epochs) == (-1, ())


def test_what_was_fetched_before_histories_part_is_still_copied_and_nothing_behind():
    copy = copy_of()
    take(copy, *(batch(2 * number, epoch=3) for number in range(4)))
    assert len(send_all(copy)) == 1
    copy.part_from(3, 4)
    assert copy.needed is None
    assert not copy.takes()
    copy.on_failed(ErrorCode.none, "lost")
    copy.repeat()
    assert len(send_all(copy)) == 1
    copy.on_acknowledged([0])
    (second,) = send_all(copy)
    assert second.base_offset == 2
    assert copy.needed is None
    copy.on_acknowledged([2])
    assert copy.needed is not None
    assert copy.needed[:2] == (Need.NEW_SESSION, 4)
    assert (copy.map.source_end, copy.buffered_bytes, copy.unsent_bytes) == (4, 0, 0)


def test_histories_part_where_the_former_epoch_was_last_seen_if_the_next_one_begins_in_a_gap():
    """Of epoch 5, which began at 2, compaction has left only what begins at 6; the source has 3 up to 4 now."""
    copy = copy_of()
    take(copy, batch(0, epoch=3), batch(6, epoch=5))
    while entries := send_all(copy):
        for entry in entries:
            copy.on_acknowledged([entry.base_offset])
    copy.part_from(3, 4)
    assert isinstance(copy.needed, Needed)
    assert copy.needed.source_offset == 2, "offsets 2 and 3 have other records now"


def test_histories_part_in_the_last_epoch_that_both_know():
    """The source has written in epoch 4 what this worker never saw, in place of what it copied in epoch 5."""
    copy = copy_of()
    take(copy, batch(0, epoch=3), batch(2, epoch=5), batch(4, epoch=5))
    while entries := send_all(copy):
        for entry in entries:
            copy.on_acknowledged([entry.base_offset])
    copy.part_from(4, 5)
    assert isinstance(copy.needed, Needed)
    assert copy.needed.source_offset == 2, "not 5, as epoch 4 is another than 5"
