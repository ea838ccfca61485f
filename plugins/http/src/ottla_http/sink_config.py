"""The settings of `HttpSink`."""

from collections.abc import Iterable
from typing import Literal

from ottla_http.bodies import CONTENT_TYPES
from ottla_http.client_config import HttpClientConfig
from ottla_http.statuses import Statuses
from ottla_http.url_template import placeholders, url_problem
from ottla_sdk import Importance, Problem, setting

PLACEHOLDERS = ("topic", "partition", "key")
_BODY = "Body"
_BATCHES = "Batches"
_RETRIES = "Retries"


class HttpSinkConfig(HttpClientConfig):
    """Where to send records, how, and how many at once.

    In http.url, ${topic}, ${partition} and ${key} stand for those of the record.
    """

    method: Literal["POST", "PUT", "PATCH"] = setting(
        "http.method", "POST", doc="The method of requests.", importance=Importance.HIGH
    )
    value_format: Literal["json", "text", "bytes"] = setting(
        "http.body.format",
        "json",
        doc="json: values as JSON. text: strings and bytes as they are, anything else as JSON. bytes: strings and "
        "bytes as they are, anything else is a bad record. The last two are for http.batch.format single only.",
        importance=Importance.HIGH,
        group=_BODY,
    )
    content: Literal["value", "record"] = setting(
        "http.body.content",
        "value",
        doc="value: the records' values. record: JSON objects with topic, partition, offset, timestamp_ms, key, "
        "headers and value.",
        group=_BODY,
    )
    compression: Literal["none", "gzip"] = setting(
        "http.body.compression", "none", doc="How bodies are compressed.", group=_BODY
    )
    null_values: Literal["report", "skip", "send", "delete"] = setting(
        "http.null.values",
        "report",
        doc="What to do with records without a value. report: they are bad records, see errors.tolerance. skip: "
        "leave them out. send: null, or an empty body. delete: a DELETE without a body, for http.batch.format "
        "single and a URL with ${key}.",
        group=_BODY,
    )
    envelope: Literal["single", "array", "ndjson"] = setting(
        "http.batch.format",
        "single",
        doc="single: each record is a request. array: a JSON array of several records. ndjson: a line of JSON for "
        "each.",
        importance=Importance.HIGH,
        group=_BATCHES,
    )
    member: str = setting(
        "http.batch.member",
        "",
        doc="If set, a batch is not an array but an object with the array as its member of this name.",
        group=_BATCHES,
    )
    records_max: int = setting(
        "http.batch.records.max", 100, doc="Most records in a request.", group=_BATCHES, ge=1, le=100_000
    )
    bytes_max: int = setting(
        "http.batch.bytes.max",
        1_048_576,
        doc="Most bytes of records in a request, before compression. A longer record is alone in one.",
        group=_BATCHES,
        ge=1,
        le=1_073_741_824,
    )
    linger_ms: int = setting(
        "http.batch.linger.ms",
        1_000,
        doc="How long a batch waits for more records, in ms. When offsets are committed, nothing waits.",
        group=_BATCHES,
        ge=0,
        le=3_600_000,
    )
    concurrent_requests_max: int = setting(
        "http.concurrent.requests.max",
        1,
        doc="Most requests at once. With single, records of one partition are still sent in order, one after "
        "another; else those for one URL.",
        group=_BATCHES,
        ge=1,
        le=1_000,
    )
    fatal_statuses: str = setting(
        "http.fatal.statuses",
        "300-399,401,403,407",
        doc="The statuses that are not the records' fault and cannot get better by themselves: they fail the task. "
        "Any other but 200 to 299 and http.retry.statuses means that the record is bad; if there are several in "
        "the request, they are sent again in smaller batches, to find out which.",
        group=_RETRIES,
    )
    idempotency_header: str = setting(
        "http.idempotency.header",
        "",
        doc="If set, the name of a header, such as Idempotency-Key, that is the same whenever the same record is "
        "sent: TOPIC-PARTITION-OFFSET. For http.batch.format single.",
        group=_RETRIES,
        pattern=r"^[A-Za-z0-9-]*$",
    )

    @property
    def fatal(self) -> Statuses:
        """The statuses that fail the task."""
        return Statuses.parse(self.fatal_statuses)

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the settings taken together."""
        yield from super().check()
        if problem := url_problem(self.url, PLACEHOLDERS):
            yield Problem("http.url", problem)
        try:
            self.fatal  # noqa: B018
        except ValueError as error:
            yield Problem("http.fatal.statuses", str(error))
        if (self.value_format, self.envelope) not in CONTENT_TYPES:
            yield Problem(
                "http.body.format", f"{self.value_format} is for http.batch.format single, not {self.envelope}"
            )
        if self.content == "record" and self.value_format != "json":
            yield Problem("http.body.content", f"record is for http.body.format json, not {self.value_format}")
        if self.member and self.envelope != "array":
            yield Problem("http.batch.member", f"is for http.batch.format array, not {self.envelope}")
        if self.null_values == "delete" and self.envelope != "single":
            yield Problem("http.null.values", f"delete is for http.batch.format single, not {self.envelope}")
        if self.null_values == "delete" and "key" not in placeholders(self.url):
            yield Problem("http.null.values", "delete needs ${key} in http.url, or it would delete everything there")
        if self.idempotency_header and self.envelope != "single":
            yield Problem("http.idempotency.header", f"is for http.batch.format single, not {self.envelope}")
