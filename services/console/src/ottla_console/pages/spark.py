"""Spark: the jobs that Connect's workers run on it."""

from typing import Final

from starlette.responses import Response

from ottla_console.pages.connect_access import all_connectors
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.paging import page_number, page_of
from ottla_console.views.spark_jobs import spark_jobs

JOBS_SHOWN: Final = 20


async def jobs(visit: Visit) -> Response:
    """Show the jobs with the last batch of each output."""
    if visit.cluster.connect_url is None:
        return visit.render("connect_unknown.html")
    found = spark_jobs(await all_connectors(visit))
    return visit.render("spark.html", shown=page_of(found, page_number(visit.query("page", "1")), JOBS_SHOWN))


VIEWS: Final = (View("/spark", jobs, "spark"),)
"""The page of jobs."""
