"""What `spark.master` may be, and what is said where nobody answers."""

import os
import socket
from collections.abc import Iterator

import pytest

from ottla_sdk import InvalidConfig
from ottla_spark.cluster.master import (
    MasterUnreachable,
    check_master,
    is_local,
    local_cores,
    standalone_addresses,
)

LOOPBACK = "127.0.0.1"


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that takes connections."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that is taken and refuses connections."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3, 2]", 3), ("local[*]", os.cpu_count())]
)
def test_a_local_master_says_how_many_tasks_run_at_a_time(master: str, cores: int):
    assert is_local(master)
    assert local_cores(master) == cores
    assert check_master(master) == ""


@pytest.mark.parametrize("master", ["yarn", "k8s://https://10.0.0.1:6443", "local-cluster[2,1,1024]"])
def test_other_clusters_are_left_to_spark(master: str):
    assert not is_local(master)
    assert check_master(master) == ""


@pytest.mark.parametrize("master", ["", "locl[2]", "local[0]", "local[two]", "local[2", "10.0.0.1:7077", "spark://"])
def test_a_master_that_spark_does_not_know_is_refused(master: str):
    with pytest.raises(
        InvalidConfig, match=r"^spark\.master: '.*' is none of local\[N\], spark://HOST:PORT, yarn and"
    ):
        check_master(master)


def test_a_standalone_master_that_answers_is_told_by_the_address_that_reaches_it(listening: int):
    assert check_master(f"spark://{LOOPBACK}:{listening}") == LOOPBACK


def test_one_of_several_masters_is_enough(silent: int, listening: int):
    assert check_master(f"spark://{LOOPBACK}:{silent},{LOOPBACK}:{listening}") == LOOPBACK


def test_where_no_master_answers_each_is_named_with_the_reason(silent: int):
    with pytest.raises(MasterUnreachable) as raised:
        check_master(f"spark://{LOOPBACK}:{silent},{LOOPBACK}:{silent}")

    refused = f"{LOOPBACK}:{silent}: Connection refused"
    assert str(raised.value) == (
        f"no Spark master answers at spark://{LOOPBACK}:{silent},{LOOPBACK}:{silent} ({refused}; {refused})"
    )


def test_addresses_may_leave_out_the_port():
    assert list(standalone_addresses("spark://one,two:7078,[::1]:7079")) == [
        ("one", 7077),
        ("two", 7078),
        ("::1", 7079),
    ]
