"""The API reference: Markdown pages from the OpenAPI document, one per tag and one of schemas."""

from __future__ import annotations

import json
import re
from typing import Any

Json = dict[str, Any]

_SCHEMA = "#/components/schemas/"
_WEBHOOKS = "Webhooks"
"""The tag of the requests that receivers get."""
_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
}


def slug(tag: str) -> str:
    """Return the file name of a tag's page, without its extension."""
    return tag.lower().replace(" ", "-")


def example_of(content: Json) -> Any:
    """Return the first example of a media type object."""
    for example in content.get("examples", {}).values():
        return example["value"]
    return content["example"]


class Reference:
    """The API reference of one OpenAPI document."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas: Json = document["components"]["schemas"]

    def pages(self) -> dict[str, str]:
        """Return the Markdown of each page by file name: `index.md`, one per tag, `schemas.md`."""
        tags = {f"{slug(tag['name'])}.md": self._tag(tag) for tag in self._document["tags"]}
        return {"index.md": self._index()} | tags | {"schemas.md": self._all_schemas()}

    def _operations(self, tag: str) -> list[tuple[str, str, Json]]:
        """Return the method, path or name, and description of the tag's operations and webhooks."""
        everything = self._document["paths"] | self._document["webhooks"]
        return [
            (method, path, operation)
            for path, methods in everything.items()
            for method, operation in methods.items()
            if tag in operation["tags"]
        ]

    def _index(self) -> str:
        lines = ["# API reference", "", self._document["info"]["description"], ""]
        lines += [
            "The reference is generated from [openapi.json](../openapi.json). A running service "
            "has it at `/openapi.json`, and a page to try it at `/docs`.",
            "",
            "## Errors",
            "",
            f"Every error is a {_link('Problem')}. Its `code` is stable, its `detail` for people.",
            "",
            "| status | when |",
            "|---|---|",
        ]
        problems: dict[str, str] = {}
        for tag in self._document["tags"]:
            for _, _, operation in self._operations(tag["name"]):
                if "security" in operation:
                    problems |= {
                        status: answer["description"]
                        for status, answer in operation["responses"].items()
                        if status >= "400"
                    }
        lines += [f"| {status} | {_cell(text)} |" for status, text in sorted(problems.items())]
        for tag in self._document["tags"]:
            page = f"{slug(tag['name'])}.md"
            lines += ["", f"## {tag['name']}", "", tag["description"], ""]
            lines += ["| operation | request |", "|---|---|"]
            lines += [
                f"| [{operation['summary']}]({page}#{operation['operationId']}) "
                f"| `{method.upper()} {path}` |"
                for method, path, operation in self._operations(tag["name"])
            ]
        return "\n".join(lines) + "\n"

    def _tag(self, tag: Json) -> str:
        lines = [f"# {tag['name']}", "", tag["description"], ""]
        if tag["name"] == _WEBHOOKS:
            lines += self._webhooks()
        else:
            for method, path, operation in self._operations(tag["name"]):
                lines += self._operation(method, path, operation)
        return "\n".join(lines) + "\n"

    def _webhooks(self) -> list[str]:
        """Return the requests to receivers. Those with the headers and answers of the first refer
        to it."""
        webhooks = [operation for *_, operation in self._operations(_WEBHOOKS)]
        first = webhooks[0]
        lines = []
        for one in webhooks:
            lines += [f"## {one['summary']} {{#{one['operationId']}}}", ""]
            lines += [_prose(one["description"]), ""]
            if one is not first and one["parameters"] == first["parameters"]:
                link = f"[{first['summary'].lower()}](#{first['operationId']})"
                lines += [*self._body(one), f"Its headers and answers are those of {link}.", ""]
            else:
                lines += [*self._parameters(one), *self._body(one), *self._answers(one)]
        return lines

    def _operation(self, method: str, path: str, operation: Json) -> list[str]:
        lines = [f"## {operation['summary']} {{#{operation['operationId']}}}", ""]
        lines += ["```http", f"{method.upper()} {path}", "```", ""]
        if "description" in operation:
            lines += [_prose(operation["description"]), ""]
        scopes = operation.get("x-scopes")
        names = " or ".join(f"`{scope}`" for scope in scopes) if scopes else "none is needed"
        lines += [f"**Scope of the key:** {names}", ""]
        lines += self._parameters(operation)
        lines += self._body(operation)
        lines += self._request(method, path, operation)
        return lines + self._answers(operation)

    def _parameters(self, operation: Json) -> list[str]:
        if not (parameters := operation.get("parameters")):
            return []
        lines = ["**Parameters**", "", "| name | in | type | meaning |", "|---|---|---|---|"]
        return [*lines, *(self._parameter(self.resolved(one)) for one in parameters), ""]

    def _parameter(self, parameter: Json) -> str:
        schema = parameter.get("schema", {})
        name = f"`{parameter['name']}`" + (" (required)" if parameter.get("required") else "")
        text = parameter.get("description") or schema.get("description", "")
        return f"| {name} | {parameter['in']} | {self._type(schema)} | {_cell(text)} |"

    def _body(self, operation: Json) -> list[str]:
        lines = []
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            schema = content.get("schema", {})
            lines += [f"**Body** (`{media}`)", ""]
            name = schema.get("$ref", "").removeprefix(_SCHEMA)
            resolved = self._schemas[name] if name else schema
            if name or "oneOf" in schema or "anyOf" in schema:
                lines += [f"A {self._type(schema)}.", ""]
            elif "description" in schema:
                lines += [_prose(schema["description"]), ""]
            if "properties" in resolved:
                lines += [*self._members(resolved), ""]
        return lines

    def _request(self, method: str, path: str, operation: Json) -> list[str]:
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        url = path
        for one in operation.get("parameters", []):
            if one["in"] == "path":
                url = url.replace(f"{{{one['name']}}}", one["example"])
        lines = ["```sh", f'curl -X {method.upper()} "$HOOKFAST_URL{url}"']
        if "security" in operation:
            lines[-1] += " \\"
            lines += ['  -H "Authorization: Bearer $HOOKFAST_API_KEY"']
        if content:
            body = json.dumps(example_of(content), indent=2, ensure_ascii=False)
            lines[-1] += " \\"
            quoted = body.replace("'", "'\\''")
            lines += ["  -H 'Content-Type: application/json' \\", f"  -d '{quoted}'"]
        return [*lines, "```", ""]

    def resolved(self, value: Json) -> Json:
        """Return the component that a reference names, or the value if it is none."""
        if "$ref" not in value:
            return value
        kind, name = value["$ref"].removeprefix("#/components/").split("/")
        component: Json = self._document["components"][kind][name]
        return component

    def _answers(self, operation: Json) -> list[str]:
        lines = ["**Answers**", "", "| status | body | meaning |", "|---|---|---|"]
        problems = []
        example: list[str] = []
        for status, described in sorted(operation["responses"].items()):
            answer = self.resolved(described)
            contents = answer.get("content", {})
            if "application/problem+json" in contents:
                problems.append(f"{status}")
                continue
            body = ""
            for media, content in contents.items():
                schema = content.get("schema", {})
                body = self._type(schema) if media == "application/json" else f"`{media}`"
                if media == "application/json" and not example:
                    text = json.dumps(example_of(content), indent=2, ensure_ascii=False)
                    example = [f"An answer with {status}:", "", "```json", text, "```", ""]
            heads = "".join(
                f" Header `{name}`: {head.get('description', '')}"
                for name, head in answer.get("headers", {}).items()
            )
            description = answer["description"].replace("Successful Response", "Done.")
            lines.append(f"| {status} | {body} | {_cell(description + heads)} |")
        if problems:
            lines.append(
                f"| {', '.join(problems)} | {_link('Problem')} | [Errors](index.md#errors) |"
            )
        return [*lines, "", *example]

    def _all_schemas(self) -> str:
        lines = ["# Schemas", "", "The objects in request bodies and answers.", ""]
        for name, schema in sorted(self._schemas.items()):
            if name.startswith("Listing_"):
                continue
            lines += [f"## {name}", ""]
            if "description" in schema:
                lines += [_prose(schema["description"]), ""]
            if "properties" in schema:
                lines += self._members(schema)
            else:
                lines += [self._type(schema)]
            lines += [""]
        return "\n".join(lines)

    def _members(self, schema: Json) -> list[str]:
        required = schema.get("required", [])
        lines = ["| member | type | meaning |", "|---|---|---|"]
        for name, member in schema["properties"].items():
            text = member.get("description", "")
            if member.get("default") not in (None, "", [], {}):
                text += f" Default: `{json.dumps(member['default'], ensure_ascii=False)}`."
            label = f"`{name}`" + (" (required)" if name in required else "")
            lines.append(f"| {label} | {self._type(member)} | {_cell(text)} |")
        return lines

    def _type(self, schema: Json) -> str:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_SCHEMA)
            if listing := re.fullmatch(r"Listing_(\w+)_", name):
                return f"`data`: array of {_link(listing[1])}, `next_cursor`"
            return _link(name)
        if options := schema.get("anyOf") or schema.get("oneOf"):
            return " or ".join(dict.fromkeys(self._type(one) for one in options))
        if "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema["enum"])
        if "const" in schema:
            return f"`{schema['const']}`"
        kind = schema.get("type", "any JSON")
        if kind == "array":
            kind = f"array of {self._type(schema.get('items', {}))}"
        if schema.get("format") == "date-time":
            kind = "time"
        limits = [
            text.format(_number(schema[word]))
            for word, text in _LIMITS.items()
            if word in schema and (word, schema[word]) != ("minLength", 1)
        ]
        return f"{kind}, {', '.join(limits)}" if limits else kind


def _link(name: str) -> str:
    return f"[{name}](schemas.md#{name.lower()})"


def _number(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"


def _prose(text: str) -> str:
    return re.sub(r"\n(?!\n)(?<!\n\n)", " ", text.strip())


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
