"""Arithmetic expressions over columns and keys."""

from __future__ import annotations

import math
from typing import Any, Mapping

__all__ = ["evaluate", "holds"]


def _log2(value: float) -> float:
    if value <= 0:
        raise ArithmeticError(f"log2({value})")
    return math.log2(value)


def _sqrt(value: float) -> float:
    if value < 0:
        raise ArithmeticError(f"sqrt({value})")
    return math.sqrt(value)


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of an arithmetic expression over names.

    Raises:
        ArithmeticError: these values have no result: a division by zero, say.
        ValueError: it is none, or names what there is not.
    """
    import simpleeval

    # A dot in a column is no operator of Python: `walk.walks` is written as it is called.
    flat = {name.replace(".", "_DOT_"): value for name, value in names.items()}
    text = expression
    for name in sorted((name for name in names if "." in name and name in expression), key=len, reverse=True):
        text = text.replace(name, name.replace(".", "_DOT_"))
    functions = {"min": min, "max": max, "abs": abs, "log2": _log2, "sqrt": _sqrt, "int": int}
    try:
        return simpleeval.SimpleEval(names=flat, functions=functions).eval(text)
    except simpleeval.NameNotDefined as error:
        near = ", ".join(sorted(names)[:200])
        raise ValueError(f"{expression!r}: there is no {error.name!r}; there are {near}") from None
    except ArithmeticError as error:
        raise ArithmeticError(f"{expression!r}: {error}") from None
    except Exception as error:
        raise ValueError(f"{expression!r}: {error}") from None


def holds(condition: str, config: Mapping[str, Any]) -> bool:
    """Whether a machine of this configuration meets a condition."""
    return bool(evaluate(condition, config))
