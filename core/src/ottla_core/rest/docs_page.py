"""``/docs``: the OpenAPI document as one page to read, which loads nothing from anywhere. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc }
code, pre { font: 14px/1.4 ui-monospace, monospace; background: #f4f4f4; border-radius: 4px }
code { padding: 0 .2em } pre { padding: .6rem; overflow-x: auto }
details { margin: .4rem 0; padding: .3rem .8rem; border: 1px solid #ddd; border-radius: 6px }
summary { cursor: pointer }
.method { display: inline-block; width: 4.5rem; font-weight: 600 }
table { border-collapse: collapse } td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0 }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd } code, pre { background: #2a2a2a } details { border-color: #444 }
  a { color: #8ab4f8 }
}
"""


def docs_page(document: Mapping[str, Any]) -> str:
    """Return the page of an OpenAPI document."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    return "".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>',
            f"<h1>{title}</h1><p>{escape(info.get('description', ''))}</p>",
            '<p>For programs: <a href="openapi.json">openapi.json</a></p>',
            *_operations(document),
            "<h2>Documents</h2>",
            *(_model(name, schema) for name, schema in _models(document).items()),
            "</body></html>",
        ]
    )


def _operations(document: Mapping[str, Any]) -> Iterator[str]:
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["others"])[0]
            by_tag.setdefault(tag, []).append(_operation(method, path, operation))
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>"
        yield from operations


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parts = [
        f'<details><summary><span class="method">{escape(method.upper())}</span><code>{escape(path)}</code> ',
        f"{escape(operation.get('summary', ''))}</summary><p>{escape(operation.get('description', ''))}</p>",
        _table("Parameters", [_parameter(each) for each in operation.get("parameters", ())]),
        _body(operation.get("requestBody")),
        _table("Answers", [_answer(status, each) for status, each in operation.get("responses", {}).items()]),
        "</details>",
    ]
    return "".join(parts)


def _parameter(parameter: Mapping[str, Any]) -> Sequence[str]:
    default = parameter.get("schema", {}).get("default")
    words = parameter.get("description", "")
    if default is not None:
        words += f" Default: {json.dumps(default)}."
    return f"<code>{escape(parameter['name'])}</code>", escape(f"in the {parameter['in']}"), escape(words)


def _body(body: Mapping[str, Any] | None) -> str:
    if body is None:
        return ""
    content = body["content"]["application/json"]
    example = escape(json.dumps(content.get("example"), indent=2, ensure_ascii=False))
    return f"<h4>Body</h4><p>{_type(content['schema'])}</p><pre>{example}</pre>"


def _answer(status: str, answer: Mapping[str, Any]) -> Sequence[str]:
    schema = answer.get("content", {}).get("application/json", {}).get("schema")
    return escape(status), escape(answer.get("description", "")), "" if schema is None else _type(schema)


def _models(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
    return found


def _model(name: str, schema: Mapping[str, Any]) -> str:
    rows = [
        (f"<code>{escape(field)}</code>", _type(each), escape(each.get("description", "")))
        for field, each in schema.get("properties", {}).items()
    ]
    values = " or ".join(f"<code>{escape(str(value))}</code>" for value in schema.get("enum", ()))
    words = escape(schema.get("description", ""))
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{words}</p><p>{values}</p>{_table("", rows)}'


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type that a schema stands for, with links to the documents in it."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping):
            return f"object of {_type(values)}"
        return escape(schema.get("title", "object"))
    return escape(str(schema.get("type", "anything")))


def _table(title: str, rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = f"<h4>{escape(title)}</h4>" if title else ""
    cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"{head}<table>{cells}</table>"
