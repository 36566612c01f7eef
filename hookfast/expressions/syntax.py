"""Parses JMESPath, with literals that are strict JSON and keep their digits. Pure."""

from __future__ import annotations

from typing import Any

from jmespath.exceptions import ParseError
from jmespath.lexer import Lexer
from jmespath.parser import Parser

from hookfast.errors import InvalidInput
from hookfast.strict_json import parser as strict_json


class InvalidLiteral(Exception):
    """A literal is not JSON that a request could have. The message says where and why."""


def parse(text: str) -> Any:
    """Return the syntax tree of an expression. Raises InvalidLiteral, ParseError, or another error
    of the library, and RecursionError for deep nesting."""
    return _Parser().tree(text)


class _Parser(Parser):
    def tree(self: Any, text: str) -> Any:
        """Parse as the library does, without its cache, which keeps 512 trees of any size."""
        self._tokens = list(_Lexer().tokenize(text))
        self._index = 0
        tree = self._expression(binding_power=0)
        if self._current_token() != "eof":
            token = self._lookahead_token(0)
            raise ParseError(token["start"], token["value"], token["type"])
        return tree


class _Lexer(Lexer):
    def _consume_literal(self: Any) -> dict[str, Any]:
        start = self._position
        text = self._consume_until("`").replace("\\`", "`")
        return _token("literal", text, start, self._position)

    def _consume_quoted_identifier(self: Any) -> dict[str, Any]:
        start = self._position
        name = self._consume_until('"')
        return _token("quoted_identifier", f'"{name}"', start, self._position)


def _token(kind: str, text: str, start: int, end: int) -> dict[str, Any]:
    try:
        value = strict_json.parse(text.encode())
    except InvalidInput as error:
        reason = error.message.removeprefix("the body is not JSON: ")
        raise InvalidLiteral(
            f"a literal at character {start + 1} that is not JSON: {reason}"
        ) from None
    return {"type": kind, "value": value, "start": start, "end": end}
