"""Numbers, sizes and command lines as people write them."""

from __future__ import annotations

import math
import os
import shlex
from typing import Any, List, Optional, Sequence, Union

__all__ = ["Command", "PathLike", "Count", "Size", "count_of", "size_of", "seed_of", "words_of", "is_whole", "place_of"]

#: A path.
PathLike = Union[str, "os.PathLike[str]"]
#: A command line: words, or one text that is taken apart as a shell would.
Command = Union[str, Sequence[PathLike]]
#: A number, such as 300_000_000 or "300M".
Count = Union[int, float, str]
#: A number of bytes, such as 65536 or "64K".
Size = Union[int, str]

_LETTERS = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def is_whole(value: Any, least: int = 0, most: int = (1 << 64) - 1) -> bool:
    """Whether this is a whole number within bounds; `True` is none."""
    return hasattr(value, "__index__") and not isinstance(value, bool) and least <= int(value) <= most


def count_of(name: str, value: Optional[Count]) -> Optional[int]:
    """A number of instructions, as people write it: 300M."""
    given = value
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not (isinstance(value, str) or hasattr(value, "__index__")):
        raise ValueError(f"{name} = {value!r} is not allowed: a whole number such as 300M or 1.5G is")
    if isinstance(value, str):
        letter = value[-1:].upper()
        digits, power = (value[:-1], _LETTERS[letter]) if letter in _LETTERS else (value, 1)
        try:
            number = float(digits) * power
        except ValueError:
            number = 0.5
        if not math.isfinite(number) or number != int(number):
            raise ValueError(f"{name} = {value!r} is not allowed: a whole number such as 300M or 1.5G is")
        value = int(number)
    if value < 1:
        raise ValueError(f"{name} = {value} is not allowed: {name} must be at least 1")
    if value >= 1 << 64:
        raise ValueError(f"{name} = {given!r} is not allowed: {name} must be below 2^64")
    return int(value)


def size_of(name: str, value: Optional[Size]) -> Optional[int]:
    """A number of bytes, as people write it: 64K."""
    if value is None:
        return value
    power = {"K": 10, "M": 20, "G": 30, "T": 40}.get(value[-1:].upper(), 0) if isinstance(value, str) else 0
    digits = str(value)[:-1] if power else str(value)
    if isinstance(value, bool) or not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{name} = {value!r} is not allowed: a size such as 64K is")
    if len(digits) > 20 or int(digits) << power >= 1 << 64:
        raise ValueError(f"{name} = {value!r} is not allowed: a size below 2^64 is")
    return int(digits) << power


def seed_of(value: int) -> int:
    """A seed: a whole number from 0, as numpy takes it."""
    if not is_whole(value):
        raise ValueError(f"seed = {value!r} is not allowed: a seed must be a whole number from 0 to 2^64-1")
    return int(value)


def words_of(command: Command) -> List[str]:
    """The words of a command line."""
    found = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    if not found:
        raise ValueError("the command is empty")
    return found


def place_of(value: Union[str, int, None]) -> Optional[str]:
    """A place in a run: a function, an address, or "mark"."""
    if value is None:
        return None
    if isinstance(value, str) and value:
        return value
    if is_whole(value):
        return hex(int(value))
    raise ValueError(f"start = {value!r} is not allowed: a function such as 'main', an address or 'mark' is")
