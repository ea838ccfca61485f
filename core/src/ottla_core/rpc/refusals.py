"""What was refused between processes of the cluster, and this process's certificate, for metrics; one of a process.

A call is refused for one of the reasons of `call_rules`. Two more are the caller's: it does not trust whom it has
dialled, or is refused itself.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from ottla_core.observe.metrics import NO_LABELS, Metrics

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

PEER_NOT_TRUSTED: Final = "peer_not_trusted"
REFUSED_BY_PEER: Final = "refused_by_peer"


class RpcSecurity:
    """What a process knows of its trust in others.

    Attributes:
        refusals: by reason, so far.
        tls: its certificate; None where processes speak without TLS.
    """

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        self.tls: RpcTls | None = None


rpc_security = RpcSecurity()
"""Of this process."""


def show_rpc_security(metrics: Metrics) -> None:
    """Show what was refused, until when the certificate holds, and whether it is the one in the files."""
    security = rpc_security
    metrics.show(
        "ottla_rpc_refusals_total",
        lambda: [(count, {"reason": reason}) for reason, count in tuple(security.refusals.items())],
    )
    metrics.show(
        "ottla_rpc_certificate_expiry_seconds",
        lambda: [] if security.tls is None else [(security.tls.expires_at_s, NO_LABELS)],
    )
    metrics.show(
        "ottla_rpc_outdated_certificates",
        lambda: [] if security.tls is None else [(int(security.tls.is_outdated), NO_LABELS)],
    )
