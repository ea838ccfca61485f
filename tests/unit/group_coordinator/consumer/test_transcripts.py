"""Groups of the consumer protocol, and migrations, as readable transcripts; see `group_transcripts.py`."""

from pathlib import Path

import pytest

from tests.support.groups.classic_group_commands import transcripts_beside
from tests.support.groups.consumer_group_commands import consumer_scene
from tests.support.groups.group_transcripts import check_transcript


@pytest.mark.parametrize("path", transcripts_beside(__file__), ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    check_transcript(path, consumer_scene())
