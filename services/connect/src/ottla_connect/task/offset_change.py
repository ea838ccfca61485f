"""Has a sink change the offsets that it keeps in its target, as long as its worker surely leads.

The worker may be paused or cut off at any time, and another one lead in its place, which changes the same offsets and
says so to its user. What this process wrote afterwards would undo that. So it has a lease, as tasks have, which ends
before the coordinator gives the lead away. It is looked at

- when the sink asks (`ChangePermit.require`): right before each write, and in a transaction between the last write
  and the commit. The latter is safe whatever is paused: while the lease holds nobody else has begun, and who begins
  afterwards waits for what the transaction has locked.
- by a thread, which ends the process at the end of the lease, also in the middle of a write that hangs. A target
  without transactions has no more than this and the question before: a write that is on its way may arrive later.
"""

import logging
import os
from collections.abc import Callable
from typing import Any

from ottla_connect.processes.messages import ChangeOffsets, OffsetsChanged
from ottla_connect.sink_offset_documents import sink_offsets
from ottla_connect.task.answers import configured
from ottla_connect.task.channel import Channel
from ottla_connect.task.control import Control
from ottla_connect.task.lease_watch import EXIT_UNLEASED, ended_with_the_lease
from ottla_connect.task.process import Process
from ottla_sdk import ChangePermit, NotPermitted, SinkConnector
from ottla_sdk.runtime.redaction import Redaction

log = logging.getLogger(__name__)


class LeasedChange(ChangePermit):
    """Permits a change while the process has a lease."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def require(self) -> None:
        """Return if there is a lease."""
        if not self._control.leased:
            raise NotPermitted("this worker may not lead any more; the request can be repeated")

    def wait(self) -> None:
        """Wait for a first lease.

        Raises:
            NotPermitted: the process is to stop.
        """
        while not self._control.leased:
            if self._control.stopping:
                raise NotPermitted("this worker stops; the request can be repeated")
            self._control.await_change()


def change_offsets(
    channel: Channel, redaction: Redaction, purpose: ChangeOffsets, *, end: Callable[[int], Any] = os._exit
) -> OffsetsChanged:
    """Have a sink change the offsets that it keeps in its target; `end` ends the process at once."""
    control = Control(channel, leased=True, end=end)
    control.start()
    permit = LeasedChange(control)

    def lapse() -> None:
        log.warning("the lease for changing offsets has lapsed, so the process ends at once")
        end(EXIT_UNLEASED)

    try:
        connector = configured(Process.make(channel, redaction, purpose.worker), purpose.settings)
        if isinstance(connector, SinkConnector):
            connector.permit = permit
            permit.wait()
            with ended_with_the_lease(control, lapse):
                connector.change_offsets(sink_offsets([*purpose.offsets]))
    except Exception as error:
        log.exception("the offsets that the sink keeps could not be changed")
        return OffsetsChanged(error=redaction.text(f"{type(error).__name__}: {error}"))
    return OffsetsChanged()
