"""Dashboards are what the Python says, and name metrics and labels of the catalogue."""

import json
import re
import subprocess

import pytest
import yaml

from deploy.monitoring.dashboard import Dashboard, Row, Variable, graph, narrowed
from deploy.monitoring.dashboards import DASHBOARDS, FOLDER, files
from deploy.monitoring.expressions import ExpressionError, check, selectors
from tests.documents.documents import ROOT

CONNECTIONS = "sum by (instance) (ottla_broker_connections{@})"


def dashboard(expression: str, *variables: Variable) -> Dashboard:
    panel = graph("Title", "short", "A sentence.", (expression, "{{instance}}"))
    return Dashboard(uid="a", title="A", description="A.", variables=variables, rows=[Row("Row", [panel])])


def test_the_files_are_what_the_script_writes() -> None:
    command = [str(ROOT / "scripts" / "generate-dashboards"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in FOLDER.iterdir()} == {path.name for path in files()}


@pytest.mark.parametrize("made", DASHBOARDS, ids=lambda made: made.uid)
def test_panels_lie_beside_and_below_each_other_and_have_ids_of_their_own(made: Dashboard) -> None:
    panels = json.loads((FOLDER / f"{made.uid}.json").read_text())["panels"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("made", DASHBOARDS, ids=lambda made: made.uid)
def test_legends_name_labels_that_their_series_have(made: Dashboard) -> None:
    for row in made.rows:
        for panel in row.panels:
            for query in panel.queries:
                named = re.findall(r"{{(\w+)}}", query.legend)
                if named:
                    check(f"sum by ({', '.join(named)}) ({narrowed(query.expression, made.all_variables)})")


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("ottla_broker_conections{@}", "ottla_broker_conections"),
        ('ottla_broker_connections{api="Fetch"}', "no label api"),
        ("sum by (api) (ottla_broker_connections{@})", "the label api"),
        ("rate(ottla_event_loop_delay_seconds[5m])", "ottla_event_loop_delay_seconds"),
        ("time()", "no metric"),
    ],
)
def test_a_panel_that_names_what_does_not_exist_is_not_made(expression: str, says: str) -> None:
    with pytest.raises(ExpressionError, match=says):
        dashboard(expression)


def test_variables_narrow_the_metrics_that_have_their_label() -> None:
    link = Variable("link", "Link", "ottla_broker_link_lag")
    made = dashboard(CONNECTIONS, link)

    assert narrowed(CONNECTIONS, made.all_variables).count("~") == 1
    assert narrowed("ottla_broker_link_lag{@}", made.all_variables) == (
        'ottla_broker_link_lag{cluster=~"$cluster",link=~"$link"}'
    )


def test_selectors_are_found_as_they_stand() -> None:
    expression = 'sum(rate(a_b{x="}"}[5m])) by (y) / on (z) group_left () c_d offset 5m and e_f > 3'

    assert [each.text for each in selectors(expression)] == ['a_b{x="}"}', "c_d", "e_f"]


def test_grafana_is_told_where_dashboards_and_prometheus_are() -> None:
    folder = ROOT / "deploy/grafana/provisioning"
    source = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"][0]
    provider = yaml.safe_load((folder / "dashboards/ottla.yaml").read_text())["providers"][0]

    assert source["type"] == "prometheus"
    assert provider["type"] == "file"
    assert provider["options"]["path"]
