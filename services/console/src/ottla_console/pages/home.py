"""Above all clusters: the list of them, the theme, and whether the console works."""

from typing import Final

from starlette.responses import PlainTextResponse, Response

from ottla_console.pages.routing import View
from ottla_console.pages.visit import THEME_COOKIE, THEMES, BadForm, Visit, cluster_address

YEAR_S: Final = 31_536_000


async def home(visit: Visit) -> Response:
    """Show the clusters; of a single one its overview."""
    clusters = list(visit.console.clusters)
    return visit.redirect(cluster_address(clusters[0])) if len(clusters) == 1 else visit.render("home.html")


async def set_theme(visit: Visit) -> Response:
    """Keep the theme that somebody chose in a cookie."""
    theme, then = visit.form.get("theme", ""), visit.form.get("then", "/")
    if theme not in THEMES:
        raise BadForm(f"the theme is one of {', '.join(THEMES)}")
    answer = visit.redirect(local_path(then))
    is_secure = visit.request.url.scheme == "https"
    answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, httponly=True, samesite="lax", secure=is_secure)
    return answer


async def health(_visit: Visit) -> Response:
    """Say that the console answers; how clusters are, their pages say."""
    return PlainTextResponse("ok\n")


def local_path(path: str) -> str:
    """Return a path of this console; the root for what leads anywhere else."""
    is_local = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_local else "/"


VIEWS: Final = (
    View("", home, is_of_cluster=False),
    View("/health", health, is_of_cluster=False),
    View("/theme", set_theme, method="POST", is_of_cluster=False),
)
