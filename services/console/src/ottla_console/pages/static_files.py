"""What browsers load besides pages: our style sheet, and htmx's script out of the distribution that brings it."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

OWN: Final = Path(__file__).parent.parent / "static"
TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOR_EVER: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file: its content, its type, and an address that changes with the content, so that browsers keep it."""

    content: bytes
    media_type: str
    address: str


def static_files() -> Mapping[str, StaticFile]:
    """Return all files by name."""
    spec = importlib.util.find_spec("django_htmx")
    assert spec is not None, "the distribution django-htmx is a dependency"
    assert spec.submodule_search_locations, "django_htmx is a package"
    scripts = Path(spec.submodule_search_locations[0]) / "static" / "django_htmx"
    paths = {
        **{path.name: path for path in OWN.iterdir() if path.suffix in TYPES},
        "htmx.js": scripts / "htmx-2.min.js",
        "htmx-sse.js": scripts / "ext" / "hx-sse-2.min.js",
    }
    return {name: _file(name, path) for name, path in paths.items()}


def static_route(files: Mapping[str, StaticFile]) -> Route:
    """Return the route of all files."""
    by_address = {each.address: each for each in files.values()}

    async def endpoint(request: Request) -> Response:
        found = by_address.get(request.url.path)
        if found is None:
            return Response("There is no such file.\n", 404, media_type="text/plain")
        return Response(found.content, media_type=found.media_type, headers={"cache-control": FOR_EVER})

    return Route("/static/{name:path}", endpoint, methods=["GET"])


def _file(name: str, path: Path) -> StaticFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    return StaticFile(content, TYPES[path.suffix], f"/static/{digest}/{name}")
