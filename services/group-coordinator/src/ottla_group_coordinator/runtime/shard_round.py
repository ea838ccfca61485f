"""What came of the turns that are stored together: records, packed into batches, and answers. Pure."""

from typing import Any

from ottla_group_coordinator.runtime.shard_batches import BatchPacker
from ottla_group_coordinator.runtime.turn import Answer, Turn


class Round:
    """What came of the turns that are stored together."""

    __slots__ = ("answers", "counted", "effects", "packer", "tells_what_is_stored")

    def __init__(self, packer: BatchPacker) -> None:
        self.packer = packer
        self.answers: list[Answer] = []
        self.counted: list[Any] = []
        self.effects: list[Any] = []
        self.tells_what_is_stored = False

    def add(self, turn: Turn) -> None:
        """Take over what came of a turn."""
        if turn.records:
            self.packer.add(turn.records, turn.timestamp_ms, turn.transaction)
        for marker in turn.markers:
            self.packer.add_marker(marker, turn.timestamp_ms)
        self.tells_what_is_stored |= turn.tells_what_is_stored
        self.answers += turn.answers
        self.counted += turn.counted
        self.effects += turn.effects
