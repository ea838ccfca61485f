"""What the audit log says became of a change, of which every part has a result of its own."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from ottla_broker.access.auditing import _note
from ottla_broker.audit.audit_records import AuditResult

DONE, DENIED, FAILED = ErrorCode.none, ErrorCode.topic_authorization_failed, ErrorCode.offset_out_of_range


class Log:
    result: AuditResult | None = None
    in_vain = False

    def note_change(self, _caller: Any, _resources: Any, result: AuditResult, _errors: Any, *, in_vain: bool) -> None:
        self.result, self.in_vain = result, in_vain


@pytest.mark.parametrize(
    ("codes", "result", "in_vain"),
    [
        ([DONE, DONE, DONE], AuditResult.DONE, False),
        ([DENIED, DENIED, DENIED], AuditResult.DENIED, True),
        ([DONE, DENIED, DENIED], AuditResult.FAILED, False),
        ([DENIED, DENIED, FAILED], AuditResult.FAILED, True),
    ],
)
def test_a_change_is_denied_only_if_nothing_of_it_was_done(
    codes: list[ErrorCode], result: AuditResult, in_vain: bool
) -> None:
    """The two topics have three partitions, so there may be as many refusals as topics beside what was done."""
    partitions = [
        DeleteRecordsPartitionResult(partition_index=i32(0), low_watermark=i64(0), error_code=code) for code in codes
    ]
    topics = tuple(
        DeleteRecordsTopicResult(name=TopicName(name), partitions=tuple(some))
        for name, some in (("mine", partitions[:1]), ("other", partitions[1:]))
    )
    answer = DeleteRecordsResponse(throttle_time=i32Timedelta.parse(timedelta(0)), topics=topics)
    log = Log()
    _note(
        cast(Any, log), cast(Any, None), ["TOPIC:mine", "TOPIC:other"], cast(Any, SimpleNamespace(answer=answer)), []
    )
    assert log.result is result
    assert log.in_vain is in_vain
