"""The report of a run: raw repetitions, figures and ratios, as JSON and as text."""

import json

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
    assert ottla["ratios"]["cpu_s_per_gb"] == {"median": 2.0, "low": 1.0, "high": 3.0}
    assert document["plan"]["targets"] == ["floor", "ottla"]


def test_the_text_shows_each_case_with_its_ratio_to_the_floor():
    lines = results().to_text().splitlines()
    assert lines[0] == "produce"
    assert lines[1].split() == ["floor", "ottla", "ottla/floor"]
    assert lines[3].split()[0] == "cpu_s_per_gb"
    assert lines[-1].split() == ["etcd-1_idle_mib", "30.0"]
