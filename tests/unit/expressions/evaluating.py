"""Evaluating one expression over a scope that the tests of functions share."""

from datetime import UTC, datetime
from typing import Any

import pytest

from loops.errors import TemplateError
from loops.expressions import compile_expression

SCOPE: dict[str, Any] = {
    "none": None,
    "text": "Fire! Ünïcode ✓",
    "list": ["a", "b", 1, True],
    "labels": [{"name": "bug", "n": 2}, {"name": "ui", "n": 10}],
    "map": {"k": ["v", None, 1.0], "z": 2},
    "stamp": "2026-03-28T00:00:00Z",
    "nan": float("nan"),
    "surrogate": "\ud800",
    "version": {"raw": '{"a": {"b": [10, "20", null]}, "t": "{\\"in\\": [true]}"}'},
    "__now__": datetime(2026, 3, 28, 15, 4, 5, tzinfo=UTC),
}


def value(source: str, **scope: Any) -> Any:
    return compile_expression(source).evaluate({**SCOPE, **scope})


def failure(source: str, **scope: Any) -> str:
    """What is said when the expression compiles and cannot be evaluated."""
    compiled = compile_expression(source)
    with pytest.raises(TemplateError) as caught:
        compiled.evaluate({**SCOPE, **scope})
    return caught.value.message


def refusal(source: str) -> TemplateError:
    """The error of an expression that cannot even be saved."""
    with pytest.raises(TemplateError) as caught:
        compile_expression(source)
    return caught.value


def same_type(result: Any, expected: Any) -> bool:
    """Equal, and of one type: to Python 1 is True."""
    return bool(result == expected and type(result) is type(expected))
