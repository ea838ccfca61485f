"""Topics are created by the `topic.creation` groups that they belong to."""

import pytest

from ottla_connect.task.source.topic_creation import NewTopicPlan, TopicCreation, problems

DEFAULT = {"topic.creation.default.replication.factor": "3", "topic.creation.default.partitions": "5"}
GROUPS = {
    **DEFAULT,
    "topic.creation.groups": "compacted, wide",
    "topic.creation.compacted.include": "changes-.*, latest",
    "topic.creation.compacted.exclude": "changes-raw",
    "topic.creation.compacted.cleanup.policy": "compact",
    "topic.creation.wide.include": ".*-wide",
    "topic.creation.wide.partitions": "64",
    "topic.creation.wide.replication.factor": "-1",
}


def test_without_settings_no_topics_are_created():
    assert not TopicCreation.of({"topic": "x"})


def test_the_default_group_takes_every_topic():
    plan = TopicCreation.of({**DEFAULT, "topic.creation.default.compression.type": "lz4"}).plan("any")
    assert plan == NewTopicPlan(name="any", partitions=5, replication_factor=3, configs={"compression.type": "lz4"})


@pytest.mark.parametrize(
    ("topic", "partitions", "replication_factor", "configs"),
    [
        ("changes-a", 5, 3, {"cleanup.policy": "compact"}),
        ("latest", 5, 3, {"cleanup.policy": "compact"}),
        ("latest-not", 5, 3, {}),
        ("changes-raw", 5, 3, {}),
        ("changes-wide", 5, 3, {"cleanup.policy": "compact"}),
        ("x-wide", 64, -1, {}),
    ],
)
def test_the_first_group_that_matches_the_whole_name_decides(topic, partitions, replication_factor, configs):
    assert TopicCreation.of(GROUPS).plan(topic) == NewTopicPlan(
        name=topic, partitions=partitions, replication_factor=replication_factor, configs=configs
    )


def test_right_settings_have_no_problems():
    assert list(problems(GROUPS)) == []
    assert list(problems({})) == []


def test_everything_wrong_is_found():
    wrong = {
        "topic.creation.groups": "g,g,h",
        "topic.creation.default.partitions": "0",
        "topic.creation.g.include": "(",
        "topic.creation.g.partitions": "many",
        "topic.creation.h.replication.factor": "-2",
    }
    assert sorted(each.key for each in problems(wrong)) == [
        "topic.creation.default.partitions",
        "topic.creation.default.replication.factor",
        "topic.creation.g.include",
        "topic.creation.g.partitions",
        "topic.creation.groups",
        "topic.creation.h.include",
        "topic.creation.h.replication.factor",
    ]
