"""What holds for every request: paths, methods, time limits, origins, errors that nobody foresaw."""

import asyncio
from html import escape

import httpx
import pytest
from structlog.testing import capture_logs

from ottla_connect.rest.options import RestOptions

PREFLIGHT = {"Origin": "http://site", "Access-Control-Request-Method": "GET"}


async def test_a_path_that_is_none_is_kafkas_404(rest):
    answer = await rest.get("/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"error_code": 404, "message": "HTTP 404 Not Found"}


async def test_a_method_that_a_resource_does_not_have_is_405_and_says_which_it_has(rest):
    answer = await rest.put("/connectors", json={})
    assert answer.status_code == answer.json()["error_code"] == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert answer.json()["message"].startswith("HTTP 405 Method Not Allowed")


async def test_options_tells_the_methods(rest):
    answer = await rest.options("/connectors/x/config")
    assert answer.status_code == 200
    assert answer.headers["allow"] == answer.text == "GET, HEAD, OPTIONS, PATCH, PUT"


async def test_head_is_get_without_its_body(rest):
    answer = await rest.head("/connectors")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/connectors/a%", "/connectors/%FF", "/connectors/%G0", "/connectors/%C3"])
async def test_a_path_with_bad_escapes_is_refused(rest, path):
    url = httpx.URL("http://worker-1:8083").copy_with(raw_path=path.encode())
    answer = await rest.get(url)
    assert answer.status_code == answer.json()["error_code"] == 400


async def test_what_nobody_foresaw_is_an_answer_without_a_traceback(rest, herder):
    herder.broken = ZeroDivisionError("by zero")
    with capture_logs() as logged:
        answer = await rest.get("/")
    assert [each["event"] for each in logged] == ["a request failed"]
    assert answer.status_code == 500
    assert answer.json() == {"error_code": 500, "message": "internal error: ZeroDivisionError: by zero"}


class TestInAHurry:
    @pytest.fixture
    def options(self) -> RestOptions:
        return RestOptions(request_timeout_s=0.02)

    async def test_a_request_that_takes_too_long_is_answered(self, rest, herder):
        herder.held = asyncio.Event()
        answer = await rest.post("/connectors", json={"name": "x", "config": {}})
        assert answer.status_code == 500
        assert answer.json()["message"].startswith("Request timed out")


async def test_pages_of_other_origins_are_not_allowed_by_default(rest):
    answer = await rest.get("/connectors", headers={"Origin": "http://site"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


class TestWithOrigins:
    @pytest.fixture
    def options(self) -> RestOptions:
        return RestOptions(allowed_origins=("http://site",), allowed_methods=("GET", "PUT"))

    async def test_pages_of_an_allowed_origin_may_use_it(self, rest):
        answer = await rest.get("/connectors", headers={"Origin": "http://site"})
        assert answer.headers["access-control-allow-origin"] == "http://site"
        preflight = await rest.options("/connectors", headers=PREFLIGHT)
        assert preflight.headers["access-control-allow-methods"] == "GET, PUT"

    async def test_pages_of_others_may_not(self, rest):
        answer = await rest.get("/connectors", headers={"Origin": "http://other"})
        assert "access-control-allow-origin" not in answer.headers


async def test_the_openapi_document_has_every_resource_with_its_models(rest):
    document = (await rest.get("/openapi.json")).json()
    operations = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert operations == {
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/connectors"),
        ("POST", "/connectors"),
        ("GET", "/connectors/{connector}"),
        ("DELETE", "/connectors/{connector}"),
        ("GET", "/connectors/{connector}/config"),
        ("PUT", "/connectors/{connector}/config"),
        ("PATCH", "/connectors/{connector}/config"),
        ("GET", "/connectors/{connector}/status"),
        ("PUT", "/connectors/{connector}/pause"),
        ("PUT", "/connectors/{connector}/resume"),
        ("PUT", "/connectors/{connector}/stop"),
        ("POST", "/connectors/{connector}/restart"),
        ("GET", "/connectors/{connector}/tasks"),
        ("GET", "/connectors/{connector}/tasks/{task}/status"),
        ("POST", "/connectors/{connector}/tasks/{task}/restart"),
        ("GET", "/connectors/{connector}/offsets"),
        ("PATCH", "/connectors/{connector}/offsets"),
        ("DELETE", "/connectors/{connector}/offsets"),
        ("GET", "/connectors/{connector}/topics"),
        ("PUT", "/connectors/{connector}/topics/reset"),
        ("GET", "/connectors/{connector}/logs"),
        ("GET", "/connector-plugins"),
        ("GET", "/connector-plugins/{plugin}/config"),
        ("PUT", "/connector-plugins/{plugin}/config/validate"),
        ("GET", "/admin/loggers"),
        ("GET", "/admin/loggers/{logger}"),
        ("PUT", "/admin/loggers/{logger}"),
    }
    models = document["components"]["schemas"]
    assert models["ErrorMessage"]["properties"].keys() == {"error_code", "message"}
    assert "422" not in str(document), "bad parameters are answered with 400"


async def test_the_documentation_page_shows_every_resource_and_loads_nothing(rest):
    document = (await rest.get("/openapi.json")).json()
    answer = await rest.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    for path, methods in document["paths"].items():
        assert f"<code>{path}</code>" in answer.text
        for operation in methods.values():
            assert escape(operation["summary"]) in answer.text
    for model in document["components"]["schemas"]:
        assert f'<h3 id="{model}">' in answer.text
    assert "src=" not in answer.text
    assert "http" not in answer.text.replace("HTTP", "")
