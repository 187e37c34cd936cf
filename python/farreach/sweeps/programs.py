"""Programs of an experiment: where their references are, and what decides them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import _command, _core, study
from ..errors import Error
from .experiment import canonical

#: A program that is ready: JSON for the library, the name in results, options of its store.
Ready = Tuple[str, str, Dict[str, Any]]


class Hashes:
    """Hashes of traces, remembered as long as nothing about the file has changed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "hashes.json"
        try:
            self._known: Dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._known = {}

    def get(self, name: str, facts: Any) -> Optional[str]:
        known = self._known.get(name)
        return known["hash"] if known and known["facts"] == facts else None

    def put(self, name: str, facts: Any, value: str) -> None:
        self._known[name] = {"facts": facts, "hash": value}
        write_whole(self._file, json.dumps(self._known, sort_keys=True))


def write_whole(file: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    handle, partial = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".partial")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, file)
    except BaseException:
        os.unlink(partial)
        raise


def _facts(path: str) -> List[List[Any]]:
    """What changes if a file does: of a folder, of all its files."""
    names = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    stats = [(name, os.stat(name)) for name in names]
    return [[name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for name, s in stats]


def hash_of(path: str, hashes: Hashes) -> str:
    """The hash of a trace."""
    path = os.path.abspath(path)
    facts = _facts(path)
    found = hashes.get(path, facts)
    if found is None:
        found = _core.hash_of(path)
        hashes.put(path, facts, found)
    return found


def is_remote(file: str) -> bool:
    """Whether a trace is in an object store."""
    return "://" in file


def download(url: str, options: Mapping[str, Any], folder: Path, expected: Optional[str] = None) -> Tuple[Path, str]:
    """Brings an object here, under its hash. Returns its path and the hash."""
    import fsspec

    # The end of the name says nothing about the content, but people like to see it.
    suffix = "-" + os.path.basename(url)
    if expected is not None and (folder / (expected + suffix)).exists():
        return folder / (expected + suffix), expected
    folder.mkdir(parents=True, exist_ok=True)
    fs, path = fsspec.core.url_to_fs(url, **options)
    handle, partial = tempfile.mkstemp(dir=folder, suffix=".partial")
    os.close(handle)
    try:
        fs.get_file(path, partial)
        found = _core.hash_of(partial)
        if expected is not None and found != expected:
            raise TraceChanged(f"{url}: the trace has changed: its hash is {found}, the sweep began with {expected}")
        os.replace(partial, folder / (found + suffix))
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    return folder / (found + suffix), found


class TraceChanged(Error):
    """A trace is not what it was when the sweep began."""


def _remote(url: str, options: Mapping[str, Any], cache: Path, hashes: Hashes) -> Tuple[str, int]:
    """Hash and size of an object; it is fetched if its store says that it is new."""
    import fsspec

    fs, path = fsspec.core.url_to_fs(url, **options)
    facts = [str(fs.ukey(path))]
    found = hashes.get(url, facts)
    if found is None:
        _, found = download(url, options, cache / "objects")
        hashes.put(url, facts, found)
    return found, int(fs.size(path) or 0)


def _recording(table: Mapping[str, Any], limit: Optional[int], cache: Path) -> Path:
    """Where the trace of a command or of a program of the catalogue is kept."""
    name = "-".join(str(table.get("name") or _label(table)).replace("/", " ").split())[:40]
    digest = hashlib.blake2b(canonical([table, limit]).encode(), digest_size=8).hexdigest()
    return cache / "traces" / f"{name}-{digest}.frt"


def _label(table: Mapping[str, Any]) -> str:
    if "name" in table:
        return str(table["name"])
    if "trace" in table:
        return str(table["trace"])
    if "command" in table:
        return study.shlex.join(study._words(table["command"]))
    settings = ",".join(f"{key}={table[key]}" for key in ("size", "references", "seed") if key in table)
    name, _, given = str(table["workload"]).partition(":")
    settings = ",".join(filter(None, [given, settings]))
    return f"workload:{name}:{settings}" if settings else f"workload:{name}"


class Missing(Error):
    """A program whose trace is not recorded yet."""


def _kernel(table: Mapping[str, Any]) -> Optional[str]:
    """The kernel of a table, as JSON; None: it is a program of the catalogue."""
    text = _label({key: value for key, value in table.items() if key != "name"})
    name = text.split(":")[1].partition("/")[2] or text.split(":")[1]
    known = json.loads(_command.run(["workloads", "--json"]))["workloads"]
    kinds = {row["name"].rpartition("/")[2]: row["type"] for row in known}
    return None if kinds.get(name) == "program" else _core.kernel_program(text)


def ready(table: Mapping[str, Any], limits: List[Optional[int]], cache: Path, hashes: Hashes, record: bool) -> Ready:
    """Makes a program ready.

    Raises:
        Missing: it would have to be recorded, and `record` is false.
        Error, OSError: it cannot be had.
    """
    label, options = _label(table), dict(table.get("storage", {}))
    if "workload" in table:
        kernel = _kernel(table)
        if kernel is not None:
            return kernel, label, {}
    if "trace" in table:
        file, form = str(table["trace"]), table.get("format")
        if is_remote(file):
            found, size = _remote(file, options, cache, hashes)
            return _trace(file, form, found, size), label, options
        found = hash_of(file, hashes)
        _core.TraceReader(file, form)  # it is one
        size = sum(fact[1] for fact in _facts(os.path.abspath(file)))
        return _trace(os.path.abspath(file), form, found, size), label, {}
    limit = None if None in limits else max(filter(None, limits))
    file = str(_recording(table, limit, cache))
    if not os.path.exists(file):
        if not record:
            raise Missing(f"{label}: its trace would be recorded")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        print(f"farreach: recording {label}", file=sys.stderr)
        if "command" in table:
            study.record(table["command"], file, limit=limit, cwd=table.get("cwd"), stdin=study.subprocess.DEVNULL)
        else:
            words = ["workloads", str(table["workload"]), "--trace", "-o", file]
            words += [word for key in ("size", "seed") if key in table for word in (f"--{key}", str(table[key]))]
            _command.run(words + (["--limit", str(limit)] if limit else []), statuses=range(256))
        if not os.path.exists(file):
            raise Error(f"{label}: it could not be recorded")
    return _trace(file, None, hash_of(file, hashes), os.path.getsize(file)), label, {}


def _trace(file: str, form: Optional[str], found: str, size: int) -> str:
    trace: Dict[str, Any] = {"file": file, "hash": found, "bytes": size}
    if form:
        trace["format"] = form
    return json.dumps({"trace": trace})
