"""A sink task's rules as readable transcripts; see `sink_scene`."""

from pathlib import Path

import pytest

from tests.support.groups.group_transcripts import check_transcript
from tests.unit.connect.task.sink.sink_scene import SinkScene


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).with_name("transcripts").glob("*.txt")), ids=lambda path: path.stem
)
def test_transcript(path: Path) -> None:
    check_transcript(path, SinkScene())
