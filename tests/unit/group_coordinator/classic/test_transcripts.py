"""Rebalances of classic groups as readable transcripts; see `tests.support.groups.group_transcripts`."""

from pathlib import Path

import pytest

from tests.support.groups.classic_group_commands import classic_scene, transcripts_beside
from tests.support.groups.group_transcripts import check_transcript


@pytest.mark.parametrize("path", transcripts_beside(__file__), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check_transcript(path, classic_scene())
