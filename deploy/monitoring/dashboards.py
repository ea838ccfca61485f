"""All dashboards, and the files that Grafana reads them from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.monitoring.dashboard import Dashboard, to_json
from deploy.monitoring.dashboard_of_brokers import BROKERS
from deploy.monitoring.dashboard_of_cluster import CLUSTER
from deploy.monitoring.dashboard_of_connect import CONNECT
from deploy.monitoring.dashboard_of_groups import GROUPS
from deploy.monitoring.dashboard_of_mirrors import MIRROR
from deploy.monitoring.dashboard_of_spark import SPARK
from deploy.monitoring.dashboard_of_topics import TOPICS
from deploy.monitoring.dashboard_of_transactions import TRANSACTIONS

FOLDER: Final = Path(__file__).parents[1] / "grafana" / "dashboards"
DASHBOARDS: Final[Sequence[Dashboard]] = (CLUSTER, BROKERS, TOPICS, GROUPS, TRANSACTIONS, CONNECT, MIRROR, SPARK)


def files() -> Mapping[Path, str]:
    """Return the text of every dashboard's file."""
    return {FOLDER / f"{each.uid}.json": json.dumps(to_json(each), indent=1) + "\n" for each in DASHBOARDS}
