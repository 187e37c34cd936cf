"""Designs in Python beside the built-in ones."""

import pytest
from designs import OnePage, SingleInPython

import farreach
from farreach import FILTERABLE, HIT, MISS, Machine, Tlb


def both(trace, python, built_in, **how):
    result = farreach.simulate(trace, [built_in, python], **how)
    one, other = (machine.counts.to_dict() for machine in result.machines)
    return one, other


@pytest.mark.parametrize("replacement", ["used-bit", "lru", "fifo"])
@pytest.mark.parametrize("entries", [1, 2, 64])
def test_single_equals_the_built_in(shell, replacement, entries):
    keys = {"replacement": replacement, "entries": entries}
    one, other = both(shell, Machine(SingleInPython, **keys), Machine("t94/single", **keys), limit="400K")
    assert one == other and one["misses"] > 100


def test_whatever_runs_beside_it(shell):
    """Superpages, splits of the TLB, processes without ids, larger base pages."""
    for keys in [{"split": True}, {"page_size": "16K"}, {"process_ids": False}, {"placement": "reservation"}]:
        one, other = both(shell, Machine(SingleInPython, **keys), Machine("t94/single", **keys), limit="300K")
        assert one == other and one["misses"] > 10, keys


def test_plain_gives_the_same(shell):
    fast = farreach.simulate(shell, [SingleInPython, OnePage], limit="60K")
    plain = farreach.simulate(shell, [SingleInPython, OnePage], limit="60K", plain=True)
    assert [m.counts for m in fast.machines] == [m.counts for m in plain.machines]


def test_filtered_lookups_do_not_reach_python(shell):
    calls = 0

    class Counting(SingleInPython):
        def access(self, asid, vpn, kind, pte):
            nonlocal calls
            calls += 1
            return super().access(asid, vpn, kind, pte)

    counts = farreach.simulate(shell, Counting, limit="400K").machines[0].counts
    # Each miss, and for each clearing of used bits at most one more lookup for each entry.
    assert counts.misses <= calls <= counts.lookups / 20


def test_a_design_that_claims_too_much_is_found_out(shell):
    class Liar(SingleInPython):
        def _victim(self):
            unfilter, self.unfilter = self.unfilter, lambda *_: None
            try:
                return super()._victim()
            finally:
                self.unfilter = unfilter

    assert farreach.simulate(shell, Liar, limit="200K", plain=True)[0].counts.misses > 100
    for threads in (0, 2):
        with pytest.raises(farreach.SimulationError, match="may be filtered, has not reported the page") as raised:
            farreach.simulate(shell, ["t94/single", Liar], limit="200K", threads=threads)
        assert raised.value.machine == "Liar"
    with pytest.raises(farreach.ConformanceError, match="FILTERABLE stays a hit until") as found:
        farreach.check(Liar)
    assert found.value.machine == "Liar" and "Liar: stream 0, step" in str(found.value)
    assert isinstance(found.value, AssertionError)


class Deaf(SingleInPython):
    def invalidate(self, asid, start, stop):
        pass


class Partly(SingleInPython):
    def invalidate(self, asid, start, stop):
        super().invalidate(asid, start, min(stop, start + 1) if stop - start < 1 << 20 else stop)


class Dice(SingleInPython):
    made = 0

    def __init__(self, entries=16):
        super().__init__(entries=entries)
        Dice.made += 1
        self._odd = Dice.made % 2

    def access(self, asid, vpn, kind, pte):
        answer = super().access(asid, vpn, kind, pte)
        return MISS if self._odd and vpn % 64 == 5 else answer & ~FILTERABLE


class Eager(OnePage):
    def access(self, asid, vpn, kind, pte):
        hit, self.last = self.last == (asid, vpn), (asid, vpn)
        return (HIT if hit else MISS) | FILTERABLE


class FalseProbe(OnePage):
    def probe(self, asid, vpn, kind):
        return (4711, 7) if self.last == (asid, vpn) else None


@pytest.mark.parametrize(
    "design, rule",
    [
        (Deaf, "a hit needs an entry|what was invalidated is no hit|was invalidated and is still filtered"),
        (Partly, "what was invalidated is no hit|was invalidated and is still filtered"),
        (Dice, "ends as .* without the filtered lookups|equal seeds give different results"),
        (Eager, "FILTERABLE stays a hit until"),
        (FalseProbe, "a probe says"),
    ],
)
def test_check_names_the_rule(design, rule):
    with pytest.raises(farreach.ConformanceError, match=rule):
        farreach.check(design)


def test_check_finds_nothing_where_nothing_is():
    for replacement in ("used-bit", "lru", "fifo"):
        checked = farreach.check(SingleInPython, replacement=replacement)
        assert len(checked.machines) == 2 and checked.steps == 10_000
    assert "no rule broken in 10,000" in repr(farreach.check(Machine(OnePage)))


def test_check_says_what_it_does_not_check():
    with pytest.raises(TypeError, match="a design written in Python is needed"):
        farreach.check("t94/single")
    with pytest.raises(farreach.MachineError, match="replacement = best"):
        farreach.check(SingleInPython, replacement="best")
    with pytest.raises(ValueError, match="times = 0"):
        farreach.check(OnePage, times=0)

    class Raises(OnePage):
        def access(self, asid, vpn, kind, pte):
            raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        farreach.check(Raises)


def test_its_keys_are_those_of_init():
    machine = Machine(SingleInPython, entries=8, penalty=20)
    assert machine.config["kind"] == "SingleInPython"
    assert (machine["entries"], machine["replacement"], machine["penalty"]) == (8, "used-bit", 20)
    with pytest.raises(farreach.MachineError, match="entris"):
        Machine(SingleInPython, entris=8)
    with pytest.raises(farreach.MachineError, match="replacement = best"):
        farreach.simulate("workload:gups:size=1M,references=1K", Machine(SingleInPython, replacement="best"))

    class NoDefault(OnePage):
        def __init__(self, entries):
            pass

    with pytest.raises(TypeError, match="entries has no default"):
        Machine(NoDefault)


def test_what_it_raises_ends_the_run():
    class Broken(OnePage):
        def access(self, asid, vpn, kind, pte):
            raise ZeroDivisionError("here")

    class Wrong(OnePage):
        def access(self, asid, vpn, kind, pte):
            return "hit"

    trace = "workload:gups:size=1M,references=10K"
    for threads in (1, 2):
        with pytest.raises(ZeroDivisionError, match="here"):
            farreach.simulate(trace, ["t94/single", Broken, "sv97/mips"], threads=threads)
    with pytest.raises(ValueError, match="access returned 'hit'"):
        farreach.simulate(trace, Wrong)

    class Nothing(Tlb):
        def access(self, asid, vpn, kind, pte):
            return MISS

    with pytest.raises(TypeError, match="no method invalidate"):
        farreach.simulate(trace, Nothing)
    with pytest.raises(TypeError, match="no subclass|not a subclass"):
        Machine(int)


def test_page_table_entries_and_answers():
    seen = []

    class Looks(OnePage):
        def access(self, asid, vpn, kind, pte):
            seen.append((asid, vpn, kind, pte.pfn, pte.attr, pte.order))
            return super().access(asid, vpn, kind, pte)

    result = farreach.simulate({"address": [0x1000, 0x1008, 0x5000], "kind": [1, 2, 1]}, Looks)
    # The store to the page of a load arrives: only loads of it are filtered.
    assert [look[:3] for look in seen] == [(0, 1, 1), (0, 1, 2), (0, 5, 1)]
    assert [look[3] for look in seen] == [0, 0, 1] and {look[4:] for look in seen} == {(7, 0)}
    assert result[0].counts.misses == 2
    assert (HIT | FILTERABLE, MISS) == (5, 0)


def test_redefined_in_a_notebook():
    trace = "workload:gups:size=1M,references=1K"
    results = []
    for answer in (HIT, MISS):

        class Same(Tlb):
            def access(self, asid, vpn, kind, pte):
                return answer

            def invalidate(self, asid, start, stop):
                pass

        results.append(farreach.simulate(trace, Same)[0].counts)
    assert results[0].misses == 0 and results[1].misses == results[1].lookups
