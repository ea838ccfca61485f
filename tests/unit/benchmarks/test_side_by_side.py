"""The report of a run: raw repetitions, figures and ratios, as JSON and as text."""

import json
from pathlib import Path

import pytest

from benchmarks.client import BenchmarkFailed
from benchmarks.side_by_side import Plan, Results


def results() -> Results:
    found = Results()
    for floor_cpu, ottla_cpu in ((1.0, 2.0), (2.0, 2.0), (1.0, 3.0)):
        found.add("produce", "floor", {"cpu_s_per_gb": floor_cpu})
        found.add("produce", "ottla", {"cpu_s_per_gb": ottla_cpu})
    found.add("footprint", "ottla", {"etcd-1_idle_mib": 30.0})
    return found


def test_the_document_has_repetitions_figures_and_ratios():
    document = json.loads(json.dumps(results().to_document(Plan(targets=["floor", "ottla"]))))
    ottla = document["cases"]["produce"]["ottla"]
    assert ottla["repetitions"] == [{"cpu_s_per_gb": 2.0}, {"cpu_s_per_gb": 2.0}, {"cpu_s_per_gb": 3.0}]
    assert ottla["figures"]["cpu_s_per_gb"] == {"median": 2.0, "low": 2.0, "high": 3.0}
    assert ottla["ratios"]["floor"]["cpu_s_per_gb"] == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert document["plan"]["targets"] == ["floor", "ottla"]


def test_the_text_shows_each_case_with_its_ratio_to_the_floor():
    lines = results().to_text().splitlines()
    assert lines[0] == "produce"
    assert lines[1].split() == ["floor", "ottla", "ottla/floor"]
    assert lines[3].split()[0] == "cpu_s_per_gb"
    assert lines[-1].split() == ["etcd-1_idle_mib", "30.0"]


def test_ottla_is_compared_with_kafka_and_with_another_checkout_but_they_not_with_it():
    found = Results()
    for target, cpu in (("floor", 1.0), ("ottla", 2.0), ("kafka", 4.0), ("other", 1.0)):
        found.add("produce", target, {"cpu_s_per_gb": cpu})
    by_target = found.to_document(Plan(targets=["floor", "ottla", "kafka"], beside=Path("/somewhere")))["cases"][
        "produce"
    ]
    ratios = {
        name: {base: of["cpu_s_per_gb"]["median"] for base, of in by_target[name]["ratios"].items()}
        for name in by_target
    }
    assert ratios == {
        "floor": {},
        "ottla": {"floor": 2.0, "kafka": 0.5, "other": 2.0},
        "kafka": {"floor": 4.0},
        "other": {"floor": 1.0, "kafka": 0.25},
    }


def test_the_document_names_no_place_of_this_machine():
    plan = Plan(targets=["ottla"], directory=Path("/somewhere"), beside=Path("/elsewhere"))
    assert not {"directory", "beside"} & results().to_document(plan)["plan"].keys()


def test_another_checkout_needs_an_environment(tmp_path):
    with pytest.raises(BenchmarkFailed, match="make setup"):
        Plan(targets=["ottla"], beside=tmp_path).makers()
