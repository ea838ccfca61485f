"""Transactions as readable transcripts; see `tests.support.transactions.transaction_scene`."""

from pathlib import Path

import pytest

from tests.support.groups.classic_group_commands import transcripts_beside
from tests.support.groups.group_transcripts import check_transcript
from tests.support.transactions.transaction_scene import TransactionScene


@pytest.mark.parametrize("path", transcripts_beside(__file__), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check_transcript(path, TransactionScene())
