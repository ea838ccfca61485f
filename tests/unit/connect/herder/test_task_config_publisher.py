"""What a connector wants its tasks to do is stored, however often that is tried, whichever start of it says so."""

import asyncio

import pytest

from ottla_connect.herder import task_config_publisher
from ottla_connect.herder.task_config_publisher import TaskConfigPublisher
from ottla_core.rest.errors import RequestError
from tests.support.eventually_async import eventually_async

CONFIGS = [{"n": "0"}, {"n": "1"}]


class Leader:
    """Stores the settings of tasks, if it is there and they are wanted."""

    def __init__(self):
        self.is_away = True
        self.tries = 0
        self.stored = []
        self.publisher = TaskConfigPublisher(store=self.store, send=self.send)

    async def store(self, name, configs, is_wanted):
        self.tries += 1
        if self.is_away:
            raise RequestError("the leader cannot be reached")
        assert is_wanted()
        self.stored.append((name, configs))

    async def send(self, url, name, configs):
        raise AssertionError("this worker leads")


@pytest.fixture
def leader(monkeypatch):
    monkeypatch.setattr(task_config_publisher, "PAUSE_FIRST_S", 0.01)
    monkeypatch.setattr(task_config_publisher, "PAUSE_MAX_S", 0.01)
    return Leader()


async def test_what_is_wanted_is_tried_until_it_is_stored(leader):
    leader.publisher.publish("c", CONFIGS, lambda: True)
    await eventually_async(lambda: leader.tries > 1, "it is tried again")
    leader.is_away = False
    await eventually_async(lambda: leader.stored == [("c", CONFIGS)], "it is stored")
    await leader.publisher.close()


async def test_what_another_start_of_the_connector_wants_too_is_not_given_up_with_the_former_one(leader):
    former_runs = True
    leader.publisher.publish("c", CONFIGS, lambda: former_runs)
    await eventually_async(lambda: leader.tries > 0, "it is tried")
    former_runs = False
    leader.publisher.publish("c", CONFIGS, lambda: True)
    await asyncio.sleep(0)
    leader.is_away = False
    await eventually_async(lambda: leader.stored == [("c", CONFIGS)], "it is stored")
    await leader.publisher.close()


async def test_what_nobody_wants_any_more_is_given_up(leader):
    wanted = True
    leader.publisher.publish("c", CONFIGS, lambda: wanted)
    await eventually_async(lambda: leader.tries > 0, "it is tried")
    wanted = False
    await eventually_async(leader.publisher._publishing["c"].done, "it is given up")
    assert leader.stored == []
    await leader.publisher.close()
