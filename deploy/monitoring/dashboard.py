"""Dashboards as data, and their form in Grafana's JSON (the classic model, schema version 39, as of Grafana 11).

A dashboard is rows of panels, a panel is expressions with legends. Expressions are looked at when their dashboard is
made, so one with a metric or a label that the catalogue lacks never comes into a file.

In expressions ``@`` stands for the matchers of the dashboard's variables; ``$__rate_interval`` is Grafana's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deploy.monitoring.expressions import OF_SCRAPES, check, labels_of, selectors
from deploy.monitoring.rules import recorded_names

SCHEMA_VERSION: Final = 39
COLUMNS: Final = 24
HEIGHT: Final = 7
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES: Final = "@"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A line of a panel.

    Attributes:
        expression: PromQL.
        legend: the name of each series, with ``{{label}}``.
    """

    expression: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A graph, or a number.

    Attributes:
        title: what it shows.
        description: how it is read, a sentence.
        unit: Grafana's id of the unit.
        queries: what is drawn.
        width: in columns of 24.
        is_number: whether it shows the last value as a number rather than a graph.
        wrong_from: numbers turn red from here on; None: they do not.
        is_stacked: whether series are drawn on top of each other.
    """

    title: str
    description: str
    unit: str
    queries: Sequence[Query]
    width: int = 8
    is_number: bool = False
    wrong_from: float | None = None
    is_stacked: bool = False

    def __post_init__(self) -> None:
        assert self.description.endswith("."), self.title
        assert self.queries, self.title


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a title."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """What the reader chooses at the top.

    Attributes:
        name: a label, and what it is called in expressions.
        title: what the reader sees.
        of: the metric whose label values can be chosen.
    """

    name: str
    title: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of Grafana.

    Attributes:
        uid: its name in addresses and of its file.
        title: what the reader sees.
        description: what it is for, a sentence.
        variables: beside the data source and the cluster, which all have.
        rows: in the order in which somebody looks at them who is called at night.
    """

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default=())

    def __post_init__(self) -> None:
        for expression in expressions(self):
            check(expression, recorded_names())
        for variable in self.all_variables:
            labels = {*labels_of(variable.of), *OF_SCRAPES}
            assert variable.name in labels, f"{variable.of} has no label {variable.name}"

    @property
    def all_variables(self) -> Sequence[Variable]:
        """All that are chosen, but for the data source."""
        return (Variable("cluster", "Cluster", "up"), *self.variables)


def number(
    title: str, description: str, expression: str, *, unit: str = "short", wrong_from: float | None = None
) -> Panel:
    """Return a panel with one number; red from `wrong_from` on."""
    query = Query(expression, "")
    return Panel(
        title=title,
        description=description,
        unit=unit,
        queries=[query],
        width=4,
        is_number=True,
        wrong_from=wrong_from,
    )


def graph(
    title: str, unit: str, description: str, *lines: tuple[str, str], width: int = 8, is_stacked: bool = False
) -> Panel:
    """Return a panel with lines over time, each an expression and its legend."""
    queries = [Query(expression, legend) for expression, legend in lines]
    return Panel(title=title, description=description, unit=unit, queries=queries, width=width, is_stacked=is_stacked)


def expressions(dashboard: Dashboard) -> Iterator[str]:
    """Yield all expressions of a dashboard, with the matchers of its variables."""
    for row in dashboard.rows:
        for panel in row.panels:
            for query in panel.queries:
                yield narrowed(query.expression, dashboard.all_variables)


def narrowed(expression: str, variables: Sequence[Variable]) -> str:
    """Return an expression with matchers for ``@``, one for each variable whose label the metric has."""
    while VARIABLES in expression:
        before, _, behind = expression.partition(VARIABLES)
        metric = selectors(f"{before}}}")[-1].metric
        labels = {*labels_of(metric), *OF_SCRAPES}
        matchers = ",".join(f'{each.name}=~"${each.name}"' for each in variables if each.name in labels)
        expression = f"{before}{matchers}{behind}"
    return expression


def to_json(dashboard: Dashboard) -> Json:
    """Return what Grafana reads."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["ottla"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [_links()],
        "annotations": {"list": [_alerts()]},
        "templating": {"list": [_data_source(), *map(_variable, dashboard.all_variables)]},
        "panels": list(_panels(dashboard)),
    }


def _links() -> Json:
    return {
        "type": "dashboards", "title": "Ottla", "tags": ["ottla"], "asDropdown": True, "includeVars": False,
        "keepTime": True, "targetBlank": False,
    }  # fmt: skip


def _alerts() -> Json:
    """Return what marks graphs where an alert of ours fires."""
    return {
        "name": "Alerts", "enable": True, "iconColor": "red", "datasource": SOURCE,
        "expr": 'ALERTS{alertname=~"Ottla.+",alertstate="firing"}', "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}}", "step": "60s",
    }  # fmt: skip


def _data_source() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(variable: Variable) -> Json:
    question = f"label_values({variable.of}, {variable.name})"
    return {
        "name": variable.name, "label": variable.title, "type": "query", "datasource": SOURCE, "definition": question,
        "query": {"query": question, "refId": variable.name}, "refresh": 2, "sort": 1, "multi": True,
        "includeAll": True, "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "hide": 0,
    }  # fmt: skip


def _panels(dashboard: Dashboard) -> Iterator[Json]:
    identity, y = 1, 0
    for row in dashboard.rows:
        yield _row(row, identity, y)
        identity, x, y = identity + 1, 0, y + 1
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y = 0, y + _height(panel)
            place = {"x": x, "y": y, "w": panel.width, "h": _height(panel)}
            yield _panel(panel, identity, place, dashboard.all_variables)
            identity, x = identity + 1, x + panel.width
        y += HEIGHT


def _height(panel: Panel) -> int:
    return 4 if panel.is_number else HEIGHT


def _row(row: Row, identity: int, y: int) -> Json:
    place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
    return {"id": identity, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, identity: int, place: Mapping[str, int], variables: Sequence[Variable]) -> Json:
    return {
        "id": identity,
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": dict(place),
        "targets": [
            {
                "refId": chr(ord("A") + index), "datasource": SOURCE, "legendFormat": query.legend,
                "expr": narrowed(query.expression, variables),
                "range": not panel.is_number, "instant": panel.is_number,
            }
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _drawing(panel), "overrides": []},
        "options": _number_options() if panel.is_number else _graph_options(),
    }  # fmt: skip


def _drawing(panel: Panel) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.wrong_from is not None:
        steps.append({"color": "red", "value": panel.wrong_from})
    drawing: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.is_number:
        return {**drawing, "color": {"mode": "thresholds"}}
    stacking = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
    lines = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 20 if panel.is_stacked else 0, "stacking": stacking}
    return {**drawing, "min": 0, "color": {"mode": "palette-classic"}, "custom": {**lines, "showPoints": "never"}}


def _number_options() -> Json:
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area", "textMode": "auto"}


def _graph_options() -> Json:
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
