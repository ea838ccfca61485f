"""Broken rules and faulty disks run the same programs as clusters do."""

import pytest

from ottla_broker.__main__ import main as broker_main
from tests.faults.cluster import PROGRAMS
from tests.faults.program import main_of


@pytest.mark.parametrize("program", [program for (program,) in PROGRAMS.values()])
def test_every_service_has_a_main(program: str):
    assert callable(main_of(program))


def test_a_package_is_run_by_its_main_module():
    assert main_of("ottla_broker") is broker_main
