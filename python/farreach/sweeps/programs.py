"""Programs of an experiment: where their references are, and what decides them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .. import _command, _core, study
from ..errors import Error
from ..messages import log
from ..quantities import count_of, words_of
from .experiment import canonical
from .files import remove_if_no_file

#: A program that is ready: JSON for the library, the name in results, options of its store.
Ready = Tuple[str, str, Dict[str, Any]]


def cache_dir() -> Path:
    """Where results are kept unless told otherwise: `farreach/sweep` in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "farreach" / "sweep"


class Hashes:
    """Hashes of traces, remembered as long as nothing about the file has changed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "hashes.json"
        known, unfit = _core.kept(self._file, "hashes", "")
        if unfit:
            log.warning("%s: not used, because %s; hashes are computed again", self._file, unfit)
        self._known: Dict[str, Any] = json.loads(known) if known else {}

    def get(self, name: str, facts: Any) -> Optional[str]:
        known = self._known.get(name)
        return known["hash"] if known and known["facts"] == facts else None

    def put(self, name: str, facts: Any, value: str) -> None:
        self._known[name] = {"facts": facts, "hash": value}
        remove_if_no_file(self._file)
        _core.keep(self._file, "hashes", "", json.dumps(self._known, sort_keys=True))


def _facts(path: str) -> List[List[Any]]:
    """What changes if a file does: of a folder, of all its files."""
    names = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    stats = [(name, os.stat(name)) for name in names]
    return [[name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for name, s in stats]


def hash_of(path: str, hashes: Hashes) -> str:
    """The hash of a trace.

    Raises:
        OSError: it is no file and no folder, a pipe, say, or cannot be read.
    """
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


def download(
    url: str,
    options: Mapping[str, Any],
    folder: Path,
    expected: Optional[str] = None,
    hash_of: Callable[[str], str] = _core.hash_of,
) -> Tuple[Path, str]:
    """Brings an object here, under its hash. Returns its path and the hash."""
    import fsspec

    # The end of the name says nothing about the content, but people like to see it.
    suffix = "-" + os.path.basename(url)
    if expected is not None:
        there = folder / (expected + suffix)
        if there.is_file() and hash_of(str(there)) == expected:
            return there, expected
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    name = "-".join(str(table.get("name") or label_of(table)).replace("/", " ").split())[:40]
    digest = hashlib.blake2b(canonical([table, limit]).encode(), digest_size=8).hexdigest()
    return cache / "traces" / f"{name}-{digest}.frt"


def label_of(table: Mapping[str, Any]) -> str:
    """What results call a program."""
    if "name" in table:
        return str(table["name"])
    if "trace" in table:
        return " + ".join(map(str, traces_in(table)))
    if "command" in table:
        return shlex.join(words_of(table["command"]))
    settings = ",".join(f"{key}={table[key]}" for key in ("size", "references", "seed") if key in table)
    name, _, given = str(table["workload"]).partition(":")
    settings = ",".join(filter(None, [given, settings]))
    return f"workload:{name}:{settings}" if settings else f"workload:{name}"


def traces_in(table: Mapping[str, Any]) -> List[str]:
    """The traces of a program that is stored: one, or several that take turns."""
    given = table["trace"]
    return [os.fspath(one) for one in ([given] if isinstance(given, (str, os.PathLike)) else given)]


class Missing(Error):
    """A program whose trace is not recorded yet."""


def _kernel(table: Mapping[str, Any]) -> Optional[str]:
    """The kernel of a table, as JSON; None: it is a program of the catalogue."""
    text = label_of({key: value for key, value in table.items() if key != "name"})
    name = text.split(":")[1].partition("/")[2] or text.split(":")[1]
    known = json.loads(_command.run(["workloads", "--json"]))["workloads"]
    kinds = {row["name"].rpartition("/")[2]: row["type"] for row in known}
    return None if kinds.get(name) == "program" else _core.kernel_program(text)


def ready(table: Mapping[str, Any], limits: List[Optional[int]], cache: Path, hashes: Hashes, record: bool) -> Ready:
    """Makes a program ready.

    Raises:
        Missing: it would have to be recorded, and `record` is false.
        Error, OSError: it cannot be had, or it failed.
    """
    label, options = label_of(table), dict(table.get("storage", {}))
    if "workload" in table:
        kernel = _kernel(table)
        if kernel is not None:
            return kernel, label, {}
    if "trace" in table:
        parts = [_stored(file, table.get("format"), options, cache, hashes) for file in traces_in(table)]
        if "interleave" not in table:
            return parts[0], label, options
        turns = [[json.loads(part) for part in parts], count_of("interleave", table["interleave"])]
        return json.dumps({"interleaved": turns}), label, options
    limit = None if None in limits else max(filter(None, limits))
    path, what = _recording(table, limit, cache), canonical([table, limit])
    if not _is_kept(path, what, hashes, said=record):
        if not record:
            _can_start(table, label)
            raise Missing(f"{label}: its trace would be recorded")
        path.parent.mkdir(parents=True, exist_ok=True)
        log.info("recording %s", label)
        _record(table, label, path, limit)
        _core.keep(path.with_suffix(".json"), "hash", what, json.dumps(hash_of(str(path), hashes)))
    return _trace(str(path), None, hash_of(str(path), hashes), os.path.getsize(path)), label, {}


def _stored(file: str, form: Optional[str], options: Mapping[str, Any], cache: Path, hashes: Hashes) -> str:
    """A stored trace, or a kernel among several traces, as JSON."""
    kernel = _core.kernel_program(file)
    if kernel is not None:
        return kernel
    if is_remote(file):
        return _trace(file, form, *_remote(file, options, cache, hashes))
    found = hash_of(file, hashes)
    _core.TraceReader(file, form)  # it is one
    size = sum(fact[1] for fact in _facts(os.path.abspath(file)))
    return _trace(os.path.abspath(file), form, found, size)


def _is_kept(path: Path, what: str, hashes: Hashes, said: bool) -> bool:
    """Whether a recording is there, and is what it was when it was made: its hash is beside it. `said`: that it is not
    has been said."""
    if not os.path.lexists(path):
        return False
    beside = path.with_suffix(".json")
    try:
        then, unfit = _core.kept(beside, "hash", what)
        if then is not None and json.loads(then) == hash_of(str(path), hashes):
            return True
        why = f"of {beside} {unfit}" if unfit else f"{beside} is not there, which has its hash"
        why = why if then is None else "it is another than when it was recorded"
    except OSError as error:
        why = str(error)
    if not said:
        log.warning("%s: not used, because %s; it is recorded again", path, why)
    remove_if_no_file(path)
    return False


def _can_start(table: Mapping[str, Any], label: str) -> None:
    """Refuses a command that there is not, before anything runs."""
    if "command" not in table:
        return
    name, folder = words_of(table["command"])[0], table.get("cwd", "")
    if folder and not os.path.isdir(folder):
        raise Error(f"program {label!r}: cwd = {folder!r} is not allowed: it must be a folder")
    if "/" in name:
        found = shutil.which(os.path.join(folder, name))
    else:
        found = shutil.which(name, path=_command.user_environment().get("PATH"))
    if found is None:
        raise Error(f"program {label!r}: there is no program {name!r}")


def _record(table: Mapping[str, Any], label: str, path: Path, limit: Optional[int]) -> None:
    """Records a command or a program of the catalogue.

    Raises:
        Error: it cannot be recorded, or it failed: what it did then is not what is asked about.
    """
    if "command" in table:
        null = subprocess.DEVNULL
        status = study.recorded(table["command"], path, limit, table.get("cwd"), null, null)
        expected = table.get("status", 0)
        # At its limit a program is ended, and has none of its own.
        if status != expected and not (limit and status == 0):
            with contextlib.suppress(OSError):
                path.unlink()
            raise Error(
                f"program {label!r} failed: its exit status is {status}, not {expected}; if it is right so, "
                f"status = {status} in its table says it"
            )
    else:
        words = ["workloads", str(table["workload"]), "--trace", "-o", str(path)]
        words += [word for key in ("size", "seed") if key in table for word in (f"--{key}", str(table[key]))]
        # A server is ended by a signal.
        _command.run(words + (["--limit", str(limit)] if limit else []), statuses=[*range(125), *range(131, 256)])
    if not path.exists():
        raise Error(f"{label}: it could not be recorded")


def _trace(file: str, form: Optional[str], found: str, size: int) -> str:
    trace: Dict[str, Any] = {"file": file, "hash": found, "bytes": size}
    if form:
        trace["format"] = form
    return json.dumps({"trace": trace})
