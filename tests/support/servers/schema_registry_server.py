"""A stand-in for a schema registry: Confluent's API over real HTTP, as far as converters use it.

It keeps schemas in memory, gives equal ones the same number, and can be told to refuse or to fail. It does not check
compatibility, and looks into a schema only to compile Protobuf text with protoc when a client asks for the
serialized form. A real registry, Apicurio's, is in tests/compat/java. `python schema_registry_server.py PORT` is one
in a process of its own, which says when it is ready.
"""

import base64
import json
import ssl
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from ottla_schema_registry.protobuf.builtin_files import TEXTS


class Stored(NamedTuple):
    """A schema as it was registered."""

    text: str
    kind: str
    references: str

    def answer(self) -> dict[str, Any]:
        """The schema in an answer; the type is left out for Avro, as in Confluent's."""
        made: dict[str, Any] = {"schema": self.text}
        if self.kind != "AVRO":
            made["schemaType"] = self.kind
        if self.references != "[]":
            made["references"] = json.loads(self.references)
        return made


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SchemaRegistryServer:
    """The registry.

    Attributes:
        requests: what was asked: method, path with query.
        failures: statuses that the next requests are answered with.
        pages: the same, with a page of a proxy's.
        authorization: what must be in that header; None lets everybody in.
        seen_headers: the headers of the last request.
        kept_as_text: Protobuf schemas that are never answered in the serialized form.

    Args:
        port: of this machine; 0 takes any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[str] = []
        self.failures: list[int] = []
        self.pages: list[int] = []
        self.authorization: str | None = None
        self.seen_headers: dict[str, str] = {}
        self.kept_as_text: set[str] = set()
        self._schemas: list[Stored] = []
        self._subjects: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

            def _answer(self, body: bytes) -> None:
                registry.seen_headers = dict(self.headers)
                try:
                    status, answer = HTTPStatus.OK, registry.handle(self.command, self.path, body)
                except Refused as refused:
                    status = HTTPStatus(refused.status)
                    answer = {"error_code": refused.code, "message": str(refused)}
                text = json.dumps(answer).encode()
                if registry.pages:
                    status, text = HTTPStatus(registry.pages.pop(0)), b"<html>no server behind this proxy</html>"
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self._handler = Handler
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def over_tls(self, context: ssl.SSLContext) -> Iterator[str]:
        """Answer at another address, by TLS; gives it."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._schemas.clear()
            self._subjects.clear()
        self.requests.clear()
        self.failures.clear()
        self.pages.clear()
        self.kept_as_text.clear()
        self.authorization = None

    def subjects(self) -> dict[str, list[int]]:
        """The numbers of each subject's versions."""
        with self._lock:
            return {name: list(ids) for name, ids in self._subjects.items()}

    def text(self, schema_id: int) -> str:
        """The text of a schema."""
        return self._schemas[schema_id - 1].text

    def guid(self, schema_id: int) -> str:
        """The GUID of a schema."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, repr(self._schemas[schema_id - 1])))

    def register(self, subject: str, text: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Register a schema; returns its number."""
        with self._lock:
            stored = Stored(text, kind, json.dumps(list(references)))
            if stored not in self._schemas:
                self._schemas.append(stored)
            schema_id = self._schemas.index(stored) + 1
            versions = self._subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def handle(self, method: str, target: str, body: bytes) -> Any:
        """Return the answer to a request."""
        self.requests.append(f"{method} {target}")
        if self.failures:
            raise Refused(self.failures.pop(0), 50001, "told to fail")
        if self.authorization is not None and self.seen_headers.get("Authorization") != self.authorization:
            raise Refused(401, 401, "Unauthorized")
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        serialized = query.get("format") == ["serialized"]
        asked = json.loads(body) if body else {}
        match [unquote(each) for each in parts.path.strip("/").split("/")]:
            case ["subjects"] if method == "GET":
                return sorted(self._subjects)
            case ["subjects", subject, "versions"] if method == "POST":
                if not asked.get("schema"):
                    raise Refused(422, 42201, "Invalid schema")
                kind, references = asked.get("schemaType", "AVRO"), asked.get("references", [])
                schema_id = self.register(subject, asked["schema"], kind, references)
                return {"id": schema_id, "guid": self.guid(schema_id)} | self._version(subject, schema_id)
            case ["subjects", subject] if method == "POST":
                return self._look_up(subject, asked)
            case ["subjects", subject, "versions", version]:
                return self._of_version(subject, version, serialized)
            case ["schemas", "ids", schema_id]:
                if not 0 < int(schema_id) <= len(self._schemas):
                    raise Refused(404, 40403, f"Schema {schema_id} not found")
                return self._answer(int(schema_id), serialized)
            case ["schemas", "guids", guid]:
                found = [each for each in range(1, len(self._schemas) + 1) if self.guid(each) == guid]
                if not found:
                    raise Refused(404, 40403, f"Schema {guid} not found")
                return self._answer(found[0], serialized)
        raise Refused(404, 404, "HTTP 404 Not Found")

    def _look_up(self, subject: str, asked: dict[str, Any]) -> Any:
        if subject not in self._subjects:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        stored = Stored(asked["schema"], asked.get("schemaType", "AVRO"), json.dumps(asked.get("references", [])))
        for schema_id in self._subjects[subject]:
            if self._schemas[schema_id - 1] == stored:
                return self._version(subject, schema_id) | stored.answer()
        raise Refused(404, 40403, "Schema not found")

    def _of_version(self, subject: str, version: str, serialized: bool) -> Any:
        versions = self._subjects.get(subject)
        if versions is None:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        number = len(versions) if version in ("latest", "-1") else int(version)
        if not 0 < number <= len(versions):
            raise Refused(404, 40402, f"Version {version} not found.")
        schema_id = versions[number - 1]
        return self._version(subject, schema_id) | self._answer(schema_id, serialized)

    def _version(self, subject: str, schema_id: int) -> dict[str, Any]:
        version = self._subjects[subject].index(schema_id) + 1
        return {"subject": subject, "version": version, "id": schema_id, "guid": self.guid(schema_id)}

    def _answer(self, schema_id: int, serialized: bool) -> dict[str, Any]:
        stored = self._schemas[schema_id - 1]
        if serialized and stored.kind == "PROTOBUF":
            stored = stored._replace(text=self._serialized(stored))
        return stored.answer() | {"guid": self.guid(schema_id)}

    def _serialized(self, stored: Stored) -> str:
        if "message" not in stored.text or stored.text in self.kept_as_text:
            return stored.text
        with tempfile.TemporaryDirectory() as folder:
            self._save(stored, Path(folder), "default.proto")
            return base64.b64encode(compile_proto(Path(folder), "default.proto")).decode()

    def _save(self, stored: Stored, folder: Path, name: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(stored.text)
        for each in json.loads(stored.references):
            referred = self._schemas[self._subjects[each["subject"]][each["version"] - 1] - 1]
            self._save(referred, folder, each["name"])


def compile_proto(folder: Path, name: str) -> bytes:
    """Return the FileDescriptorProto that protoc makes of a file."""
    for builtin, text in TEXTS.items():
        (folder / builtin).parent.mkdir(parents=True, exist_ok=True)
        (folder / builtin).write_text(text)
    target = folder / "compiled"
    includes = [f"-I{folder}", f"-I{files('grpc_tools') / '_proto'}"]
    status = protoc.main(["protoc", *includes, f"--descriptor_set_out={target}", str(folder / name)])
    if status != 0:
        raise Refused(422, 42201, f"protoc refuses {name}")
    found = descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes())
    return found.file[-1].SerializeToString()


@contextmanager
def running_schema_registry() -> Iterator[SchemaRegistryServer]:
    """A registry that is stopped at the end."""
    server = SchemaRegistryServer()
    try:
        yield server
    finally:
        server.stop()


if __name__ == "__main__":
    SchemaRegistryServer(int(sys.argv[1]))  # its thread goes on until the process is killed
    print("ready", flush=True)
