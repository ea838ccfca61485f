"""Leader epochs against the records of a log, through truncations, flushes and kills with whatever the disk held.

The model is a list of leader epochs, one per record. A kill leaves the records (the page cache survives it), the
leader epoch checkpoint as it was last written, and a recovery point of any moment since the last truncation.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla_broker.log.files.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT
from tests.support.broker.partition_logs import NOW_MS, batch_of, open_log, small_segments

CONFIG = small_segments()


class TruncationCrashes(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="truncations-"))
        self.log = open_log(self.directory / "flights-0", config=CONFIG)
        self.epochs: list[int] = []
        self.recovery_points = [0]

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.log.abandon()
            shutil.rmtree(self.directory)

    @rule(later=st.integers(0, 3), count=st.integers(1, 6))
    def follow(self, later: int, count: int) -> None:
        """Take over records of the last epoch or a later one."""
        epoch = (self.epochs[-1] if self.epochs else 0) + later
        if epoch < self.log.leader_epochs.latest:  # the leader does not know an epoch in which this replica led
            self.log.truncate_to(len(self.epochs), NOW_MS)
        for _ in range(count):
            batch = batch_of(b"v", base_offset=len(self.epochs), leader_epoch=epoch)
            self.log.append_as_follower(batch, now_ms=NOW_MS)
            self.epochs.append(epoch)

    @rule(later=st.integers(1, 3))
    def lead_without_records(self, later: int) -> None:
        self.log.start_leader_epoch((self.epochs[-1] if self.epochs else 0) + later)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.recovery_points.append(self.log.recovery_point)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)
        self.recovery_points.append(self.log.recovery_point)

    @precondition(lambda self: self.epochs)
    @rule(data=st.data(), settled=st.booleans())
    def truncate(self, data: st.DataObject, settled: bool) -> None:
        offset = data.draw(st.integers(0, len(self.epochs)))
        asyncio.run(self._cut(offset, settled))
        del self.epochs[offset:]
        self.recovery_points = [min(point, offset) for point in self.recovery_points]

    async def _cut(self, offset: int, settled: bool) -> None:
        async with self.log.truncation.prepared(offset):
            self.log.truncate_to(offset, NOW_MS)
        if settled:
            await self.log.truncation.settled()

    @rule(data=st.data(), loses_the_file=st.booleans())
    def kill(self, data: st.DataObject, loses_the_file: bool) -> None:
        self.log.abandon()
        if loses_the_file:
            (self.log.directory / LEADER_EPOCH_CHECKPOINT).unlink(missing_ok=True)
        recovery_point = data.draw(st.sampled_from(self.recovery_points))
        self.log = open_log(self.log.directory, config=CONFIG, was_clean=False, recovery_point=recovery_point)
        self.recovery_points = [min(recovery_point, self.log.recovery_point)]

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = open_log(self.log.directory, config=CONFIG)
        self.recovery_points.append(self.log.recovery_point)

    @invariant()
    def epochs_are_those_of_the_records(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == len(self.epochs)
            known = [self.log.leader_epochs.epoch_at(offset) for offset in range(len(self.epochs))]
            assert known == self.epochs


TruncationCrashes.TestCase.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
TestTruncationCrashes = TruncationCrashes.TestCase
