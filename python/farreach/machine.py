"""Machines: a TLB design with the operating system it runs on, its memory and its prices."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Type, Union

from . import _core
from .errors import MachineError
from .tlb import Tlb

__all__ = ["Machine", "MachineLike", "MachinesLike", "Key", "machines", "area"]

#: What the package takes for a machine: a `Machine`, a name as `--machine` takes it, or a subclass of `Tlb`.
MachineLike = Union["Machine", str, "os.PathLike[str]", Type[Tlb]]
#: One or several of them; a name may be that of a group of presets, such as "ds13".
MachinesLike = Union[MachineLike, Iterable[MachineLike]]
#: A value of a key; several are a list.
Key = Union[bool, int, float, str, "os.PathLike[str]", Sequence[Union[bool, int, float, str]]]

#: Bytes of a description that are read.
_MOST_TEXT = 16 << 20


def text_of(file: Union[str, os.PathLike[str]]) -> str:
    """A file that people have written. No pipe is waited for, unless it was handed over as `/dev/stdin` or `/dev/fd/N`,
    and no device is read without end.

    Raises:
        OSError: it cannot be read, or is no regular file.
        ValueError: it is too large, or no UTF-8.
    """
    name = os.fspath(file)
    with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        given = name == "/dev/stdin" or name.startswith(("/dev/fd/", "/proc/self/fd/"))
        if not given and not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", name)
        os.set_blocking(opened.fileno(), True)
        read = opened.read(_MOST_TEXT + 1)
    if len(read) > _MOST_TEXT:
        raise ValueError(f"{name}: is larger than {_MOST_TEXT >> 20} MB")
    return read.decode("utf-8")


def _text(key: str, value: Any) -> str:
    """A value of a key, as on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "+".join(_text(key, item) for item in value)
    if isinstance(value, float):
        return repr(value)
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    if value is None or "," in text:
        raise ValueError(f"{key} = {value!r} is not allowed: a number, a text without comma, True, False or a list is")
    return text


class Machine:
    """A machine, completely described.

    Args:
        name: a preset (`t94/partial`), a file (`mine.toml`), either with overrides (`t94/partial:entries=32`), or a
            subclass of `Tlb`. `Machine.of_kind("partial")` has every key at its default.
        keys: overrides. `farreach machines --keys NAME` explains those of a machine.

    Raises:
        MachineError: no such machine, an unknown key, or a value that is not allowed.

    >>> Machine("t94/partial", entries=32).config["entries"]
    32
    """

    __slots__ = ("_base", "_toml", "_overrides", "_design", "_described")

    def __init__(self, name: MachineLike, **keys: Key) -> None:
        self._design: Optional[Type[Tlb]] = None
        self._toml: Optional[str] = None
        self._overrides: dict[str, str] = {}
        self._base: str
        if isinstance(name, Machine):
            self._base, self._toml, self._design = name._base, name._toml, name._design
            self._overrides = dict(name._overrides)
        elif isinstance(name, type):
            self._base, self._design = name.__name__, name
            self._toml = f'kind = "{name.__name__}"\n'
        elif isinstance(name, Tlb):
            kind = type(name).__name__
            raise TypeError(f"an object of {kind} is no machine: the class {kind} is, and Machine({kind}, key=value)")
        elif not isinstance(name, (str, os.PathLike)):
            raise TypeError(f"{name!r} is no machine: a name, a Machine or a subclass of Tlb is")
        elif os.fspath(name).partition(":")[0] == "this":
            raise MachineError(
                os.fspath(name),
                "the processor at hand is for `advise` and for the command; `farreach machines this` "
                "prints its description, for a file",
            )
        else:
            self._base = self._take_apart(os.fspath(name))
        self._overrides.update({key: _text(key, value) for key, value in keys.items()})
        self._described: _core.Description = _core.describe(self._tuple(), 0)

    def _take_apart(self, text: str) -> str:
        head = text[: text.find("=")] if "=" in text else text
        end = head.find(".toml:") + 5 if ".toml:" in head else len(text) if text.endswith(".toml") else 0
        if end:
            base, rest = text[:end], text[end + 1 :]
            self._toml = text_of(base)
        else:
            base, _, rest = text.partition(":")
        for pair in filter(None, rest.split(",")):
            key, equals, value = pair.partition("=")
            key = key.strip()
            if not equals or key in self._overrides:
                # The library says what is wrong with it.
                _core.describe((text, self._toml, rest, None), 0)
            self._overrides[key] = value.strip()
        return base

    def _tuple(self) -> tuple[str, Optional[str], str, Optional[Type[Tlb]]]:
        """As the compiled half takes it."""
        return self.name, self._toml, ",".join(f"{k}={v}" for k, v in self._overrides.items()), self._design

    @classmethod
    def from_toml(cls, text: str, name: str = "machine") -> Machine:
        """A machine from a description in TOML. `name` is what results call it."""
        machine = cls.__new__(cls)
        machine._base, machine._toml, machine._overrides, machine._design = name, text, {}, None
        machine._described = _core.describe(machine._tuple(), 0)
        return machine

    @classmethod
    def of_kind(cls, kind: str, **keys: Key) -> Machine:
        """A machine of a kind of hardware with every key at its default but for these."""
        return cls.from_toml(f'kind = "{kind}"\n', kind).with_(**keys)

    def with_(self, **keys: Key) -> Machine:
        """The same machine with other values of some keys.

        >>> Machine("t94/single").with_(entries=32).name
        't94/single:entries=32'
        """
        return Machine(self, **keys)

    @property
    def name(self) -> str:
        """What results call it: the base and its overrides."""
        pairs = ",".join(f"{key}={value}" for key, value in self._overrides.items())
        return f"{self._base}:{pairs}" if pairs else self._base

    @property
    def about(self) -> str:
        """One line for people."""
        return self._described.about

    @property
    def config(self) -> dict[str, Any]:
        """Every key with its resolved value, as in the JSON of results."""
        config: dict[str, Any] = json.loads(self._described.config)
        return config

    @property
    def area_rbe(self) -> Optional[float]:
        """Chip area in register-bit equivalents; `None` where the model does not apply."""
        return self._described.area_rbe

    @property
    def reach_bytes(self) -> int:
        """TLB reach: bytes that entries of the largest kind map."""
        return self._described.reach_bytes

    def to_toml(self) -> str:
        """The resolved description: reading it again gives the same machine."""
        return self._described.toml

    def __getitem__(self, key: str) -> Any:
        """The value of a key."""
        return self.config[key]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self._tuple() == other._tuple()

    def __hash__(self) -> int:
        return hash(self._tuple())

    def __repr__(self) -> str:
        return f"Machine({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._base, self._toml, self._overrides, self._design)


def _restore(base: str, toml: Optional[str], overrides: Mapping[str, str], design: Optional[Type[Tlb]]) -> Machine:
    """From a pickle."""
    machine = Machine.__new__(Machine)
    machine._base, machine._toml, machine._overrides, machine._design = base, toml, dict(overrides), design
    machine._described = _core.describe(machine._tuple(), 0)
    return machine


def machines(group: str = "all") -> list[Machine]:
    """The presets: all of them, or those of a group such as `ds13`, but for those that are taken by name alone.

    Raises:
        ValueError: there is no such group.
    """
    groups = dict.fromkeys(name.partition("/")[0] for name in _core.presets())
    if group != "all" and group not in groups:
        raise ValueError(f"group = {group!r} is not allowed: there are {', '.join(groups)}, all")
    return [Machine(name) for name in _core.named(group)]


def area(kind: str, **keys: Key) -> float:
    """Chip area of a fully associative TLB in register-bit equivalents (rbe).

    Args:
        kind: `single`, `superpage`, `complete` or `partial`.
        keys: such as `entries` and `factor`.

    Raises:
        MachineError: an unknown key, a value that is not allowed, or a kind that the area model does not cover.

    >>> round(area("partial", entries=64, factor=16), 1)
    9557.2
    """
    machine = Machine.of_kind(kind, **keys)
    if machine.area_rbe is None:
        raise MachineError(machine.name, "the area model does not cover it: fully associative TLBs of one level are")
    return machine.area_rbe


#: What runs where no machine is named: the five designs of the subblock paper.
_DEFAULT = ["t94/single", "t94/superpage", "t94/partial", "t94/complete", "t94/set-associative"]


def is_group(name: str) -> bool:
    """Whether this is a group of presets, with overrides or without."""
    return name.partition(":")[0] in {preset.partition("/")[0] for preset in _core.presets()} | {"all"}


def listed(given: Optional[MachinesLike], none: bool = False) -> List[Machine]:
    """Machines as the user gave them: one or several, groups of presets among them. `none`: or no machine.

    Raises:
        ValueError: there is none.
    """
    several: Iterable[MachineLike]
    if given is None:
        several = _DEFAULT
    elif isinstance(given, (Machine, str, os.PathLike, type)):
        several = [given]
    else:
        several = given
    found: List[Machine] = []
    for machine in several:
        if isinstance(machine, str):
            found.extend(Machine(name) for name in _core.named(machine))
        else:
            found.append(machine if isinstance(machine, Machine) else Machine(machine))
    if not found and not none:
        raise ValueError(f"machines = {given!r} is not allowed: at least one machine is")
    return found
