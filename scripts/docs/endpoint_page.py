"""Make docs/reference/endpoints from the server's OpenAPI document; `reference.py` writes it.

Each API has a page, with the JSON objects that no other page needs. The others stand on the first
page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

OPENING = """# Server endpoints

The endpoints of `harmony serve`. `scripts/docs/endpoint_page.py` makes these pages of the server's
OpenAPI document, which a running server has at `/openapi.json`. [Serve a
model](../../guides/serve.md) shows how to use the endpoints. [Requests and
responses](../mapping.md) shows what they are in harmony.

Requests and responses are JSON unless a page says otherwise. A response with a status of 400 or
more has the body [`ErrorAnswer`](#erroranswer); for clients of Messages and of Ollama it has the
form of their API. A request that is not HTTP, or that does not end in time, gets plain text.

| Status | Cause |
|---|---|
| 400 | The request is wrong. `param` is the field at fault. |
| 401 | The server has API keys, and the request has none of them in `Authorization: Bearer KEY`. |
| 403 | The request comes from a web page of another origin. |
| 404, 405 | There is no such endpoint, object or model; the endpoint has no such method. |
| 408 | The request did not end in time. |
| 409 | Another request has the object, or the `Idempotency-Key`. |
| 413, 415 | The body is too large, or not of the right type. |
| 429 | A limit is reached. `Retry-After` is in the header where waiting helps. |
| 500 | The server failed. Its log says where. |
| 503 | The engine is not available, or the server is shutting down. |
"""

JSON_OBJECTS = """## JSON objects

The fields of requests and responses. A field that is not *required* may be left out or null.
"""

PAGES = {
    "Responses": ("Responses", "Conversations"),
    "Chat Completions": ("Chat Completions",),
    "Completions": ("Completions",),
    "Messages": ("Messages",),
    "Ollama": ("Ollama",),
    "Files and containers": ("Files", "Containers"),
    "Batches": ("Batches",),
    "Tokens, models, operation": ("Tokens", "Models", "Operation", "Usage"),
}
"""The titles of the pages, and the tags whose endpoints they have."""

FIRST_PAGE = "index.md"

_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "length ≥ {}",
    "maxLength": "length ≤ {}",
    "minItems": "items ≥ {}",
    "maxItems": "items ≤ {}",
    "maxProperties": "keys ≤ {}",
}
"""What the keywords of JSON Schema say about a value."""

_NOT_SUPPORTED = "Not supported"
"""How the description of a field begins that only exists to be refused."""

Json = dict[str, Any]


def endpoint_pages(document: Json) -> dict[str, str]:
    """Return the pages by their file names: one for all endpoints, then one for each API."""
    tags = _by_tag(document)
    if {*tags} != {tag for own in PAGES.values() for tag in own}:
        raise ValueError(f"PAGES in endpoint_page.py must have these tags: {', '.join(tags)}")
    used = {
        _file_name(title): _used([tags[tag] for tag in own], document)
        for title, own in PAGES.items()
    }
    homes = {}
    for name in document["components"]["schemas"]:
        users = [page for page, names in used.items() if name in names]
        homes[name] = users[0] if len(users) == 1 else FIRST_PAGE
    texts = {FIRST_PAGE: [OPENING, *_overview(tags)]}
    for title, own in PAGES.items():
        lines = texts[_file_name(title)] = [
            f"# {title}: endpoints\n\n[All endpoints](index.md), and what their errors mean.\n"
        ]
        for tag in own:
            lines += [f"## {tag}\n"]
            for heading, operation in tags[tag]:
                lines += _endpoint(heading, operation, document)
    for page, lines in texts.items():
        if objects := [name for name in homes if homes[name] == page and not _is_form(name)]:
            lines.append(JSON_OBJECTS)
        for name in objects:
            schema = document["components"]["schemas"][name]
            lines += [f"### {_title(name)}\n", *_paragraphs(schema), *_fields(schema)]
    elsewhere = {_object_anchor(name): page for name, page in homes.items()}
    return {page: _linked("\n".join(lines), page, elsewhere) for page, lines in texts.items()}


def _file_name(title: str) -> str:
    return f"{_anchor(title)}.md"


def _used(endpoints: Any, document: Json) -> set[str]:
    """Return the names of the JSON objects that endpoints need, and those that these need."""
    names: set[str] = set()
    waiting = [endpoints]
    while waiting:
        found = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(waiting.pop())))
        waiting += [document["components"]["schemas"][name] for name in found - names]
        names |= found
    return names


def _linked(text: str, page: str, homes: dict[str, str]) -> str:
    """Let the links to JSON objects lead to their pages."""

    def link(match: re.Match[str]) -> str:
        home = homes.get(match[1], page)
        return f"]({'' if home == page else home}#{match[1]})"

    return re.sub(r"\]\(#(\w+)\)", link, text).rstrip() + "\n"


def _overview(tags: dict[str, list[tuple[str, Json]]]) -> Iterator[str]:
    """Yield a table of the endpoints of each page, with links to their sections."""
    for title, own in PAGES.items():
        page = _file_name(title)
        yield f"## {title}\n\n| [Endpoint]({page}) | Purpose |\n| --- | --- |"
        for heading, operation in (endpoint for tag in own for endpoint in tags[tag]):
            purpose = _in_cell(operation["description"].split("\n\n")[0])
            yield f"| [`{heading}`]({page}#{_anchor(heading)}) | {purpose} |"
        yield ""


def _anchor(heading: str) -> str:
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"\s+", "-", words)


def _by_tag(document: Json) -> dict[str, list[tuple[str, Json]]]:
    """Return the titles and operations of the endpoints, by tag."""
    endpoints: dict[str, list[tuple[str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for tag in operation["tags"]:
                endpoints.setdefault(tag, []).append((f"{method.upper()} {path}", operation))
    return endpoints


def _endpoint(title: str, operation: Json, document: Json) -> Iterator[str]:
    yield f"### `{title}`\n"
    yield from _paragraphs(operation)
    for place, title in (("query", "Query parameter"), ("header", "Header")):
        parameters = [p for p in operation.get("parameters", ()) if p["in"] == place]
        yield from _table(
            [
                (p["name"], p["schema"], p.get("required", False), p.get("description", ""))
                for p in parameters
            ],
            title,
        )
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        if kind == "application/json":
            yield f"Body: {_type(content['schema'])}.\n"
        else:
            yield f"Body, as `{kind}`:\n"
            form = content["schema"]["$ref"].rpartition("/")[2]
            yield from _fields(document["components"]["schemas"][form])
    yield f"Response: {_response(operation['responses']['200'])}.\n"


def _response(response: Json) -> str:
    for kind, content in response.get("content", {}).items():
        schema = content.get("schema", {})
        if kind == "application/json":
            return _type(schema) if schema else "a JSON object as in OpenAI's API"
        return "the bytes of the file" if schema.get("format") == "binary" else f"text, `{kind}`"
    return "server-sent events"


def _paragraphs(described: Json) -> Iterator[str]:
    text = described.get("description", "").partition("\n\n>>> ")[0].strip()
    if text:
        yield text + "\n"


def _fields(schema: Json) -> Iterator[str]:
    required = schema.get("required", ())
    fields = [
        (name, field, name in required, field.get("description", ""))
        for name, field in schema["properties"].items()
    ]
    yield from _table([f for f in fields if not f[3].startswith(_NOT_SUPPORTED)], "Field")
    refused = [f"`{name}`" for name, _, _, text in fields if text.startswith(_NOT_SUPPORTED)]
    if refused:
        yield f"Not supported, and an error unless left out: {', '.join(refused)}.\n"


def _table(fields: list[tuple[str, Json, bool, str]], title: str) -> Iterator[str]:
    """Yield a table of names; columns that would be empty are left out."""
    rows = [
        [f"`{name}`", _type(schema, required), _default(schema, required), _in_cell(meaning)]
        for name, schema, required, meaning in fields
    ]
    heading = [title, "Type", "Default", "Meaning"]
    columns = [number for number in range(4) if any(row[number] for row in rows)]
    if rows:
        for row in [heading, ["---"] * 4, *rows]:
            yield f"| {' | '.join(row[number] for number in columns)} |"
        yield ""


def _default(schema: Json, required: bool) -> str:
    if required:
        return "*required*"
    return f"`{_json(schema['default'])}`" if schema.get("default") is not None else ""


def _type(schema: Json, required: bool = True) -> str:
    """Return the type of a value as people read it, with its limits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{_title(name)}`](#{_object_anchor(name)})"
    if "anyOf" in schema:
        options = [o for o in schema["anyOf"] if required or o.get("type") != "null"]
        return " or ".join(_type(option) for option in options)
    limits = [text.format(_number(schema[key])) for key, text in _LIMITS.items() if key in schema]
    return _kind(schema) + (f" ({', '.join(limits)})" if limits else "")


def _kind(schema: Json) -> str:
    if "const" in schema:
        return f"`{_json(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_json(value)}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"array of {_type(schema['items'])}" if schema.get("items") else "array"
        case "object":
            values = schema.get("additionalProperties")
            return f"object of {_type(values)}" if isinstance(values, dict) else "object"
        case "string" if schema.get("format") == "binary" or "contentMediaType" in schema:
            return "file"
        case None:
            return "any JSON"
        case kind:
            return str(kind)


def _number(value: Any) -> Any:
    """Write 64-bit bounds, which JSON has as floats, as powers."""
    if not isinstance(value, float):
        return value
    if abs(value) == 2.0**63:
        return f"{'-' if value < 0 else ''}2⁶³"
    return int(value) if value.is_integer() else value


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _is_form(name: str) -> bool:
    return name.startswith("Body_")


def _title(name: str) -> str:
    """Write the name of a generic model as Python does: ``ListPage[File]``."""
    return re.sub(r"_(\w+)_$", r"[\1]", name)


def _object_anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _title(name).lower())


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
