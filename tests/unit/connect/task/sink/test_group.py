from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.sink.group import Group


class FakeConsumer:
    """Returns messages, and says that partition 0 is given away meanwhile, and perhaps comes back."""

    def __init__(self, *, comes_back: bool) -> None:
        self.comes_back = comes_back

    def subscribe(self, topics, *, on_assign, on_revoke, on_lost):
        self.on_assign, self.on_revoke = on_assign, on_revoke
        on_assign(self, [KafkaTopicPartition("t", 0)])

    def consume(self, count, timeout):
        self.on_revoke(self, [KafkaTopicPartition("t", 0)])
        if self.comes_back:
            self.on_assign(self, [KafkaTopicPartition("t", 0)])
        return [Message(topic="t", partition=0, offset=7), Message(topic="t", partition=1, offset=8)]

    def poll(self, timeout):
        return None

    def assign(self, partitions):
        pass


class Listener:
    def on_assigned(self, partitions):
        return {}

    def on_revoked(self, partitions, *, lost):
        pass

    def must_pause(self, partition):
        return False


def read(*, comes_back: bool) -> list[int | None]:
    group = Group(FakeConsumer(comes_back=comes_back), Listener(), incremental=False)
    group.subscribe(["t"])
    return [each.partition() for each in group.read(10, 0)]


def test_what_was_read_of_a_partition_before_it_was_given_away_is_left_out():
    assert read(comes_back=False) == [1]


def test_a_partition_that_is_back_before_the_read_ends_loses_no_records():
    assert read(comes_back=True) == [0, 1]
