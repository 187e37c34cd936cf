"""Whole systems: their contexts as frames, and sums by privilege as in the CSV."""

import csv
import io
import json

import pytest

import farreach

#: Space, kernel, program; fetches, loads, stores; misses of fetches and of data of the first machine.
ROWS = [
    (0, True, "kernel", (1000, 300, 200), (10, 20)),
    (1, True, "sh", (2000, 600, 400), (4, 6)),
    (1, False, "sh", (3000, 900, 100), (5, 5)),
    (2, True, "cc1", (10000, 3000, 2000), (100, 200)),
    (2, False, "cc1", (40000, 12000, 6000), (50, 150)),
    (3, True, "cc1", (5000, 1500, 1000), (40, 60)),
    (3, False, "cc1", (20000, 6000, 3000), (30, 70)),
]
COUNTED = (
    "lookups misses fetch_misses data_misses second_level_fetch_hits second_level_data_hits range_hits extra_pte_reads "
    "walks walk_references"
).split()


@pytest.fixture
def guest():
    """The result of a whole system with two machines, of which the second has no cycles by context."""
    alone = farreach.simulate("workload:gups:size=1M", ["t94/single", "t94/partial"], limit="10K").to_dict()
    result = json.loads(json.dumps(alone))
    contexts = []
    for space, kernel, program, (fetch, load, store), _ in ROWS:
        kinds = {"fetch": fetch, "load": load, "store": store}
        contexts.append(
            {"kernel": kernel, "space": space, "program": program, "references": kinds, "lookups": dict(kinds)}
        )
    events = "space_switches processor_switches kernel_entries exceptions root_writes invalidations broadcasts "
    events += "table_words"
    result["workload"]["guest"] = {
        "arch": "aarch64",
        "processors": 2,
        "memory_bytes": 1 << 29,
        "events": {name: i for i, name in enumerate(events.split())},
        "exceptions": [{"vector": 0x400, "count": 3}],
        "contexts": contexts,
    }
    for machine, times in zip(result["machines"], (2, 1)):
        rows = []
        for space, kernel, program, references, (fetch, data) in ROWS:
            counts = dict.fromkeys(COUNTED, 0)
            counts.update(lookups=sum(references), fetch_misses=times * fetch, data_misses=times * data)
            counts["misses"] = times * (fetch + data)
            row = {"kernel": kernel, "space": space, "program": program, **counts}
            rows.append({**row, "cycles": 40 * row["misses"]} if times == 2 else row)
        machine["guest"] = {"flushes": 12, "flushed": 340, "contexts": rows}
    return farreach.Result.from_json(json.dumps(result))


def test_contexts_are_a_frame(guest):
    frame = guest.contexts
    which = ["machine", "program", "privilege", "space"]
    references = ["references.fetch", "references.load", "references.store"]
    assert list(frame.columns) == [*which, *references, *COUNTED, "cycles"]
    assert len(frame) == 2 * len(ROWS)
    assert frame.loc[3, which].tolist() == ["t94/single", "cc1", "kernel", 2]
    assert frame.loc[3, [*references, "misses", "cycles"]].tolist() == [10000, 3000, 2000, 600, 24000]
    sums = frame.pivot_table("misses", "program", ["machine", "privilege"], "sum")
    assert sums.loc["cc1", ("t94/single", "kernel")] == 800 and sums.loc["cc1", ("t94/partial", "user")] == 300
    assert frame[frame["machine"] == "t94/partial"]["cycles"].isna().all()
    whole = frame.groupby(["machine", "privilege"])["misses"].sum()
    assert whole["t94/single"].to_dict() == {"kernel": 880, "user": 620}


def test_sums_by_privilege_are_those_of_the_csv(guest):
    names = ("kernel.", "user.", "flush", "workload.guest.")
    printed = list(csv.DictReader(io.StringIO(guest.to_csv())))
    for row, theirs in zip(guest.rows(), printed):
        mine = {name: value for name, value in row.items() if name.startswith(names)}
        assert set(mine) == {name for name, value in theirs.items() if name.startswith(names) and value != ""}
        for name, value in mine.items():
            assert str(value) == theirs[name], name
    assert guest.rows()[0]["kernel.misses"] == 880 and guest.rows()[0]["workload.guest.user.references.load"] == 18900
    assert "kernel.cycles" not in guest.rows()[1]
    assert list(guest.to_frame()["flushes"]) == [12, 12]


def test_a_guest_as_records_and_text(guest):
    assert guest.workload.guest.arch == "aarch64" and guest.workload.guest.events.kernel_entries == 2
    assert [context.program for context in guest[0].guest.contexts][:2] == ["kernel", "sh"]
    assert "Kernel and user" in guest.table() and "exception from user × 3" in str(guest)
    assert farreach.Result.from_json(guest.to_json()) == guest


def test_one_program_has_no_contexts():
    result = farreach.simulate("workload:gups:size=1M", "t94/single", limit="10K")
    assert result.contexts.empty and not any(name.startswith("kernel.") for name in result.rows()[0])
