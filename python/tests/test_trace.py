"""Traces as arrays, and arrays as traces."""

import subprocess

import numpy as np
import pytest

import farreach
from farreach import FETCH, LOAD, STORE, Trace, TraceWriter, _command


def references(batches):
    """All columns of some batches, one behind the other."""
    batches = list(batches)
    return [np.concatenate([getattr(batch, name) for batch in batches]) for name in ("address", "size", "kind", "pid")]


def lackey(file):
    """The same as the command writes it as text: an independent way through the stream."""
    text = subprocess.run(
        [_command.command(), "trace", "convert", "--to", "lackey", file], capture_output=True, check=True, text=True
    ).stdout
    kinds = {"I ": FETCH, " L": LOAD, " S": STORE}
    rows = [(line[:2], *line[3:].split(",")) for line in text.splitlines()]
    return [
        np.array([int(address, 16) for _, address, _ in rows], dtype=np.uint64),
        np.array([int(size) for _, _, size in rows]),
        np.array([kinds[kind] for kind, _, _ in rows]),
    ]


def test_every_reference_is_there(shell):
    address, size, kind, pid = references(Trace(shell))
    for mine, text in zip((address, size, kind), lackey(shell)):
        assert np.array_equal(mine, text)
    spaces = Trace(shell).summary()["spaces"]
    assert len(spaces) > 2
    for space in spaces:
        mine = kind[pid == space["asid"]]
        counts = [int((mine == what).sum()) for what in (FETCH, LOAD, STORE)]
        assert counts == [space["instructions"], space["loads"], space["stores"]]


@pytest.mark.parametrize("size", [1, 1000, 1 << 22])
def test_the_size_of_batches_changes_nothing(kernel, size):
    batches = []
    for batch in Trace(kernel).batches(size):
        batches.append(batch)
        if size == 1 and len(batches) > 3000:
            break
    whole = references(Trace(kernel))
    for mine, all_of_it in zip(references(batches), whole):
        assert np.array_equal(mine, all_of_it[: len(mine)])
    assert all(len(batch) >= size for batch in batches[:-1])
    if size > 1:
        assert sum(map(len, batches)) == len(whole[0])
    with pytest.raises(ValueError, match="size = 0"):
        next(Trace(kernel).batches(0))


def test_events_stand_in_their_places(shell):
    events = [event for batch in Trace(shell) for event in batch.events]
    names = {event.name for event in events}
    assert {"start", "map", "unmap", "fork", "end"} <= names
    summary = Trace(shell).summary()["events"]
    for name, count in summary.items():
        if name not in ("define", "code"):
            assert (
                sum(event.name.replace("_", "") == name.replace("-", "").replace("_", "") for event in events) == count
            )


@pytest.mark.parametrize("how", ["batches", "words"])
def test_what_is_read_can_be_written(shell, tmp_path, how):
    copy = tmp_path / "copy.frt"
    with TraceWriter(copy, {"program": "copy"}) as writer:
        writer.write(getattr(Trace(shell), how)())
    assert Trace(copy).info["header"]["program"] == "copy"
    for mine, other in zip(references(Trace(copy)), references(Trace(shell))):
        assert np.array_equal(mine, other)
    totals = Trace(shell).summary()["totals"]
    assert writer.totals["loads"] == totals["loads"] and writer.totals["events"] == totals["ops"]
    machines = ["t94/single", "t94/partial", "ds13/segment", "sv97/softvm"]
    one, two = (farreach.simulate(file, machines).to_dict()["machines"] for file in (shell, str(copy)))
    # A slice of time of a machine with caches ends with a block, and other blocks were made of the references.
    for name in ("timeline", "memory_over_time"):
        del one[3][name], two[3][name]
    assert one == two


@pytest.mark.parametrize("how", ["batches", "words"])
def test_a_page_trace_stays_one(tmp_path, how):
    trace = farreach.record("true", tmp_path / "pages.frt", pages_only=True)
    first = next(iter(getattr(trace, how)()))
    assert (first.events[0].name, first.events[0].fields) == ("pages", {})
    copy = tmp_path / "copy.frt"
    with TraceWriter(copy) as writer:
        writer.write(getattr(trace, how)())
    assert Trace(copy).summary()["events"]["pages"] == 1
    one, two = (farreach.simulate(file, "t94/single").to_dict()["machines"] for file in (trace, copy))
    assert one == two
    with pytest.raises(farreach.Error, match="looks at the lines"):
        farreach.simulate(trace, "sv97/softvm")


def test_arrays_are_simulated_as_traces(kernel):
    machines = ["t94/single", "t94/set-associative"]
    stored = farreach.simulate(kernel, machines)
    batches = farreach.simulate(Trace(kernel).batches(), machines)
    assert batches.to_dict()["machines"] == stored.to_dict()["machines"]
    assert batches.workload.source == "arrays"


def test_arrays_of_any_kind():
    address = np.arange(0, 1 << 22, 64, dtype=np.uint64)
    plain = farreach.simulate(address, "t94/single").machines[0].counts
    assert (plain.lookups, plain.misses, plain.load_misses) == (1 << 16, 1 << 10, 1 << 10)
    structured = np.zeros(len(address), dtype=[("address", "u8"), ("size", "u4")])
    structured["address"], structured["size"] = address, 8
    pieces = ({"address": part, "size": 8, "kind": LOAD} for part in np.split(address, 8))
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    table = pa.table({"address": address, "size": np.full(len(address), 8)})
    for given in (
        structured,
        list(pieces),
        {"address": address.astype(np.int64)},
        table,
        table.to_batches()[0],
        pd.DataFrame({"address": address}),
    ):
        assert farreach.simulate(given, "t94/single").machines[0].counts == plain
    stores = farreach.simulate({"address": address, "kind": STORE, "pid": 3}, "t94/single").machines[0].counts
    assert stores.store_misses == 1 << 10


def test_impossible_references_are_refused():
    good = np.arange(10, dtype=np.uint64)
    for given, words in [
        ({"address": good, "size": 0}, "size = 0"),
        ({"address": good, "size": np.array([1] * 9 + [1 << 20])}, "reference 9.*size = 1048576"),
        ({"address": good, "kind": 3}, "kind = 3"),
        ({"address": np.array([1, 2**64 - 1], dtype=np.uint64)}, "reference 1.*2\\^64"),
        ({"address": good, "kind": FETCH, "size": 65}, "from 1 to 64"),
    ]:
        with pytest.raises(farreach.TraceError, match=words) as raised:
            farreach.simulate(given, "t94/single")
        assert raised.value.file == "arrays"
    for given, words in [
        ({"address": good, "size": [1, 2]}, "size has 2 elements"),
        ({"adress": good}, "adress"),
        ({"size": good}, "'address' is missing"),
        ({"address": [-1]}, "address = -1"),
        ({"address": good, "kind": 300}, "kind = 300"),
        ({"address": good.reshape(2, 5)}, "2 dimensions"),
    ]:
        with pytest.raises(ValueError, match=words):
            farreach.simulate(given, "t94/single")
    with pytest.raises(TypeError, match="float64"):
        farreach.simulate({"address": [0.5]}, "t94/single")
    with pytest.raises(TypeError):
        farreach.simulate(3, "t94/single")


def test_a_writer_leaves_whole_files_only(tmp_path):
    file = tmp_path / "t.frt"
    with pytest.raises(farreach.TraceError):
        with TraceWriter(file) as writer:
            writer.write({"address": np.arange(9)})
            writer.write({"address": np.arange(9), "size": 0})
    assert list(tmp_path.iterdir()) == []
    with TraceWriter(file) as writer:
        writer.write({"address": np.arange(9)})
        assert not file.exists()
    assert file.exists()
    with pytest.raises(RuntimeError, match="closed"):
        writer.write({"address": np.arange(9)})
    with pytest.raises(OSError):
        TraceWriter(tmp_path / "no" / "t.frt")


def test_bad_traces_say_where(tmp_path, kernel):
    with pytest.raises(FileNotFoundError):
        Trace(tmp_path / "none.frt")
    cut = tmp_path / "cut.frt"
    with open(kernel, "rb") as file:
        cut.write_bytes(file.read()[:-100])
    with pytest.raises(farreach.TraceError, match="cut.frt"):
        for _ in Trace(cut):
            pass
    text = tmp_path / "no.txt"
    text.write_text("this is no trace\n")
    with pytest.raises(farreach.TraceError) as raised:
        Trace(text)
    assert raised.value.place == "byte 0"
    text.write_text(" L 1000,8\n")
    assert len(next(iter(Trace(text)))) == 1 and Trace(text).info["format"] == "lackey"


def test_a_trace_is_opened_anew_each_time(kernel):
    trace = Trace(kernel)
    assert trace.info["format"] == "frt" and trace.info["bytes"] > 0
    first, second = references(trace), references(trace)
    assert len(first[0]) == len(second[0]) > 0
    assert Trace("workload:gups:size=1M,references=1K").info == {}


def test_a_frame_and_arrow_have_the_columns(kernel):
    pytest.importorskip("pyarrow")
    batch = next(Trace(kernel).batches(1000))
    assert list(batch.to_frame().columns) == batch.to_arrow().schema.names == ["address", "size", "kind", "pid"]
