"""Whether anything about security may be written yet: all processes have to know of it. Pure."""

from kio.schema.errors import ErrorCode

from ottla_core.cluster.state.features import SECURITY_LEVEL
from ottla_core.cluster.state.model import ClusterState
from ottla_core.errors import CodedError


def security_refusal(state: ClusterState) -> CodedError | None:
    """Return why nothing about security may be written yet, or None."""
    if state.features.level >= SECURITY_LEVEL:
        return None
    return CodedError(
        ErrorCode.unsupported_version,
        f"the cluster is at level {state.features.level} of ottla.version; this needs level {SECURITY_LEVEL}: when"
        " all processes are of a release that has it, run `ottla cluster features upgrade`",
    )


def check_security_level(state: ClusterState) -> None:
    """See that something about security may be written.

    Raises:
        CodedError: it may not; UNSUPPORTED_VERSION.
    """
    if (refusal := security_refusal(state)) is not None:
        raise refusal
