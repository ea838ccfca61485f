"""MirrorMaker's own classes read our topics, and say what an independent count says."""

import asyncio
import random
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from ottla_mirror.groups.heartbeats import Heartbeats
from ottla_mirror.internal_topics.internal_topic import InternalTopic
from ottla_mirror.offsets.offset_sync_writer import OffsetSyncWriter
from tests.support.mirror.mirror_flow import MirrorFlow, mirror_flow
from tests.support.mirror.mirrored_topic import MirroredTopic
from tests.support.reference.kafka_jars import kafka_classpath

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

PROGRAM = Path(__file__).with_name("MirrorReading.java")
DEADLINE_S = 120.0
SEED = 21
RECORDS = 60
GROUPS = 12
NOW_MS = 1_700_000_000_000

Facts = dict[str, list[list[str]]]


async def read_by_mirror_maker(bootstrap: str, flow: MirrorFlow, syncs: str, groups: list[str]) -> Facts:
    command = ["java", "-cp", kafka_classpath(), str(PROGRAM), bootstrap, flow.alias, syncs, *groups]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    facts: Facts = defaultdict(list)
    for line in done.stdout.splitlines():
        what, *words = line.split("\t")
        facts[what].append(words)
    return facts


async def test_its_tools_translate_offsets_as_they_are_counted(source_bootstrap: str, bootstrap: str) -> None:
    chance = random.Random(SEED)
    async with mirror_flow(source_bootstrap, bootstrap) as flow:
        topics = [await flow.topic() for _ in range(3)]
        syncs = InternalTopic(flow.target_cluster, f"mm2-offset-syncs.{flow.alias}.internal", replication_factor=None)
        writer = OffsetSyncWriter(syncs, offset_lag_max=0)
        writer.start()
        for topic in topics[:2]:  # the third stays empty
            for _ in range(3):
                await topic.write(RECORDS // 3)
                await topic.copy_on(chance)
                writer.note({topic.partition: topic.copy})
        writer.note({topics[2].partition: topics[2].copy})
        await writer.close()
        committed = [
            (flow.group(), topic, chance.randint(0, topic.end)) for _ in range(GROUPS // 3) for topic in topics
        ]
        for group, topic, offset in committed:
            await flow.commit(group, topic, offset)
        sync = await flow.sync()
        await sync.emit_checkpoints()
        heartbeats = InternalTopic(flow.target_cluster, "heartbeats", replication_factor=None)
        await beat(
            flow, heartbeats, InternalTopic(flow.target_cluster, f"{flow.alias}.heartbeats", replication_factor=None)
        )

        facts = await read_by_mirror_maker(bootstrap, flow, syncs.name, [group for group, _, _ in committed])

        expected = [
            [group, f"{topic.remote_name}-0", str(await topic.expected(offset)), "note"]
            for group, topic, offset in committed
        ]
        assert facts["utils"] == expected
        assert facts["client"] == expected
        assert facts["checkpoint topics"] == [["true"]]
        assert {"heartbeats", f"{flow.alias}.heartbeats"} <= set(facts["heartbeat topics"][0][0].split())
        assert facts["hops"] == [["1"]]
        assert facts["upstream"] == [["true"]]
        assert facts["heartbeat"] == [["target", str(NOW_MS)]]
        await check_syncs(facts["sync"], topics)


async def beat(flow: MirrorFlow, own: InternalTopic, copied: InternalTopic) -> None:
    """Heartbeats of the flow, and a copy of those at its source."""
    for topic in (own, copied):
        heartbeats = Heartbeats(topic, source_alias=flow.alias, target_alias="target")
        await heartbeats.start()
        await heartbeats.beat(NOW_MS)


async def check_syncs(found: list[list[str]], topics: list[MirroredTopic]) -> None:
    """Each is a record that was copied, and there is none of an empty partition."""
    named = {f"{topic.name}-0": topic for topic in topics}
    assert {words[0] for words in found} == {f"{topic.name}-0" for topic in topics[:2]}
    for name, upstream, downstream in found:
        assert await named[name].expected(int(upstream)) == int(downstream)
