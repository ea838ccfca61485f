"""A partition that begins at the end of the source is not left without a stored position."""

import asyncio
import random
from dataclasses import replace
from typing import Any, cast
from unittest.mock import MagicMock
from uuid import UUID

from ottla_mirror.copy.partition_copy import PartitionCopy
from ottla_mirror.copy.takeover import Pairing
from ottla_mirror.copy.transactions.transaction_rules import Producer
from ottla_mirror.copy.transactions.transactional_start import begun_by
from ottla_mirror.copy.transactions.transactional_writing import TransactionalOwner, TransactionalWriting
from tests.support.mirror.mirror_model import SourceModel
from tests.support.mirror.transaction_model import SETTINGS, TargetModel, WorkerModel

WORKER = UUID(int=9)


def test_the_transaction_that_stores_the_start_begins_as_soon_as_the_partition_is_taken_over() -> None:
    async def scenario(start: Any, *, is_ours: bool) -> bool:
        model = WorkerModel(SourceModel(random.Random(1)), TargetModel(is_version_2=True), random.Random(1))
        owner = MagicMock()
        owner.is_ours.return_value = is_ours
        writing = TransactionalWriting(
            cast("TransactionalOwner", owner),
            MagicMock(),
            MagicMock(),
            coordinators=[MagicMock()],
            store=model.store,
            settings=replace(SETTINGS, start=start),
            worker=WORKER,
        )
        copied = begun_by(model.work, Producer(7, 0), 40, None, target_end=0, worker=WORKER)
        model.work.replace_copy(PartitionCopy(copied, Pairing([], 0, 40), WORKER))
        writing.note(model.work)
        is_busy = writing.is_busy(model.work)
        writing.close()
        return is_busy

    assert asyncio.run(scenario("latest", is_ours=True))
    assert not asyncio.run(scenario("latest", is_ours=False))
    assert not asyncio.run(scenario("earliest", is_ours=True))
