"""What the checker takes for lost depends on what a topic promises to keep."""

import json

from tests.faults.checker import lost_records, problems_of
from tests.faults.history import ACKNOWLEDGED, FROM_BEGINNING, SEEN, Content, ProducerHistory, ReaderHistory, line
from tests.faults.java_load import consumer_notes, producer_notes
from tests.faults.topics import Keeps

Records = list[tuple[int, Content]]
WRITTEN: Records = [(offset, Content("k", offset, offset)) for offset in range(4)]


def problems(topic: str, final: Records, *readers: ReaderHistory) -> list[str]:
    return problems_of(written_to(topic), readers, {(topic, 0): final}, {})


def written_to(topic: str) -> ProducerHistory:
    history = ProducerHistory()
    history.add(line(ACKNOWLEDGED, topic, 0, content.key, content.number, at) for at, content in WRITTEN)
    return history


def reader_of(topic: str, seen: Records) -> ReaderHistory:
    history = ReaderHistory("reader")
    history.add([line(FROM_BEGINNING, topic, 0), *(line(SEEN, topic, 0, at, *content) for at, content in seen)])
    return history


def test_a_topic_that_keeps_the_newest_may_begin_later_but_has_no_gap():
    assert problems("recent", WRITTEN[2:], reader_of("recent", WRITTEN)) == []
    assert problems("recent", WRITTEN[2:], reader_of("recent", WRITTEN[1:])) == []
    lost, gap = problems("recent", [WRITTEN[1], WRITTEN[3]])
    assert lost.startswith("lost: k number 2")
    assert gap == "gap: recent-0 continues at 3 instead of 2"


def test_a_topic_that_keeps_everything_may_not():
    assert problems("fruit", WRITTEN) == []
    assert any(problem.startswith("lost: k number 0") for problem in problems("fruit", WRITTEN[1:]))


def test_a_compacted_topic_keeps_the_last_value():
    assert problems("table", WRITTEN[3:], reader_of("table", WRITTEN)) == []
    assert problems("table", WRITTEN, reader_of("table", WRITTEN[::2])) == []
    (problem,) = problems("table", WRITTEN[:3])
    assert problem == "lost: the last value of k in table, number 3 at table-0@3; the last one there is number 2"


def test_a_record_of_a_compacted_topic_vanishes_only_for_a_newer_one():
    vanished = reader_of("table", [(4, Content("k", 4, 4))])
    (problem,) = problems("table", WRITTEN[3:], vanished)
    assert problem.startswith("reader saw k number 4")


def test_a_record_of_a_compacted_topic_vanishes_for_a_later_copy_of_itself_and_for_no_former_one():
    number, content = WRITTEN[-1]
    once_more = [*WRITTEN, (number + 2, content)]
    both = reader_of("table", once_more)
    assert problems("table", once_more[-1:], both) == []
    (problem,) = problems("table", WRITTEN, both)
    assert problem.startswith("reader saw k number 3")


def test_what_one_replica_acknowledged_is_counted_and_no_problem():
    assert problems("unsure", WRITTEN[1:]) == ["gap: unsure-0 continues at 1 instead of 0"]
    assert problems("unsure", WRITTEN[:2]) == []
    assert (
        len(list(lost_records(written_to("unsure"), {("unsure", 0): WRITTEN[:2]}, keeping=[Keeps.NOTHING_SURE]))) == 2
    )


def test_what_kafkas_programs_print_is_read_as_notes():
    printed = [
        json.dumps({"name": "startup_complete"}) + "\n",
        json.dumps(
            {"name": "producer_send_success", "key": "3", "value": "7", "topic": "java", "partition": 1, "offset": 9}
        )
        + "\n",
        json.dumps({"name": "producer_send_error", "key": "3", "value": "8", "topic": "java", "exception": "E"})
        + "\n",
        '{"name": "producer_send_succ',
    ]
    history = ProducerHistory()
    history.add(producer_notes(printed))
    assert (history.acknowledged_count, history.failed_count) == (1, 1)
    record = {"name": "record_data", "key": "3", "value": "7", "topic": "java", "partition": 1, "offset": 9}
    reader = ReaderHistory("java", is_in_order=False)
    reader.add(consumer_notes([json.dumps(record) + "\n"]))
    ((offset, content),) = reader.runs["java", 1][0]
    assert (offset, content.key, content.number) == (9, "3", 7)
