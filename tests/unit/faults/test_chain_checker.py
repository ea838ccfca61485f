"""The checker of chains names what stands for no input, and inputs for which nothing stands."""

import pytest

from tests.faults.history import Place
from tests.faults.transactions.chain_checker import Stage, chain_problems
from tests.faults.transactions.transaction_history import Contents
from tests.faults.transactions.transaction_records import TransactionId, TransactionRecord

STAGE = Stage("copier", "in", "out")


def problems(*origins: int, offset: int, inputs: tuple[int, ...] = (0, 1, 2)) -> list[str]:
    """What is said of a stage that has made records of some offsets, and committed one."""
    committed: Contents = {
        ("in", 0): [(each, TransactionRecord(TransactionId("w", each), 0, 1)) for each in inputs],
        ("out", 0): [
            (index, TransactionRecord(TransactionId("c", index), 0, 1, Place("in", 0, each)))
            for index, each in enumerate(origins)
        ],
    }
    return list(chain_problems(STAGE, committed, {0: offset}))


def test_one_record_for_each_input_is_right_whatever_lies_between_them() -> None:
    assert problems(0, 2, 5, offset=7, inputs=(0, 2, 5)) == []


@pytest.mark.parametrize(
    ("origins", "offset", "sign"),
    [
        ((0, 2), 3, "skipped: the group is at 3, and nothing was made of in-0@1"),
        ((0, 1, 2), 2, "ahead: out-0@2 was made of in-0@2, and the group is at 2 only"),
        ((0, 1, 1, 2), 3, "twice: out-0@1 and out-0@2"),
        ((0, 2, 1), 3, "reordered: out-0@2"),
        ((0, 1, 2, 3), 4, "aborted read: out-0@3"),
        ((0, 1), 2, "unseen: the group is at 2, and does not go on to in-0@2"),
    ],
)
def test_an_anomaly_is_named(origins: tuple[int, ...], offset: int, sign: str) -> None:
    found = problems(*origins, offset=offset)
    assert len(found) == 1, found
    assert sign in found[0]
