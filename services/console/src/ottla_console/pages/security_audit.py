"""The newest records of the console's audit log: all of a cluster's, or what the user has done."""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.visit import Visit
from ottla_console.views.audit_table import audit_rows
from ottla_console.views.paging import page_number, page_of
from ottla_operations.acls.cluster_acls import NoAuthorizer, all_bindings
from ottla_operations.errors import OperationError


async def audit(visit: Visit) -> Response:
    """Show the records; others' only to who may see the access control lists, too."""
    sees_all = await visit.ask(_may_see_acls)
    rows = audit_rows(visit.console.actions.newest(visit.cluster.name), None if sees_all else visit.user)
    return visit.render(
        "security_audit.html",
        tab="audit",
        sees_all=sees_all,
        shown=page_of(rows, page_number(visit.query("page", "1"))),
    )


def _may_see_acls(kit: ClusterKit) -> bool:
    try:
        with kit.cluster_admin() as admin:
            all_bindings(admin)
    except NoAuthorizer:
        return True
    except OperationError:
        return False
    return True


VIEWS: Final = (View("/security/audit", audit, "security"),)
