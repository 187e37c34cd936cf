"""TLB designs in Python, for tests: the built-in `single`, written again."""

from farreach import FILTERABLE, HIT, MISS, Tlb


class SingleInPython(Tlb):
    """Fully associative, one page size: `t94/single` with its four ways to choose a victim, but `random`.

    With used bits an access sets the bit of its entry, the access that missed too. The victim is the lowest invalid
    entry, else the lowest whose bit is clear; if there is none, all bits are cleared first (T94-14).
    """

    def __init__(self, entries: int = 64, replacement: str = "used-bit", process_ids: bool = True) -> None:
        if replacement not in ("used-bit", "lru", "fifo"):
            raise ValueError(f"replacement = {replacement} is not allowed: used-bit, lru and fifo are")
        self.replacement = replacement
        self.process_ids = process_ids
        self.slots = [None] * entries
        self.used = bytearray(entries)
        #: Slot by (asid, vpn); for LRU and FIFO the oldest first.
        self.where = {}
        self.running = None

    def access(self, asid, vpn, kind, pte):
        page = (asid, vpn)
        slot = self.where.get(page)
        if slot is not None:
            self.used[slot] = 1
            if self.replacement == "lru":
                self._recent(page, slot)
            return HIT | FILTERABLE
        self.fills += 1
        slot = self._victim()
        self.slots[slot] = page
        self.used[slot] = 1
        self._recent(page, slot)
        return MISS | FILTERABLE

    def _recent(self, page, slot):
        """Makes a page the most recent; its predecessor's next hit would change the order."""
        if self.replacement == "lru" and self.where:
            before = next(reversed(self.where))
            if before != page:
                self.unfilter(*before)
        self.where.pop(page, None)
        self.where[page] = slot

    def _victim(self):
        if len(self.where) < len(self.slots):
            return self.slots.index(None)
        if self.replacement == "used-bit":
            slot = self.used.find(0)
            if slot < 0:
                # Their next lookups set the bits again.
                self.used = bytearray(len(self.used))
                for page in self.slots:
                    self.unfilter(*page)
                slot = 0
        else:
            slot = next(iter(self.where.values()))
        page = self.slots[slot]
        self.evictions += 1
        self.unfilter(*page)
        del self.where[page]
        return slot

    def _drop(self, page):
        slot = self.where.pop(page)
        self.slots[slot] = None
        self.used[slot] = 0
        self.invalidations += 1
        self.unfilter(*page)

    def invalidate(self, asid, start, stop):
        for page in [page for page in self.where if page[0] == asid and start <= page[1] < stop]:
            self._drop(page)

    def switch(self, asid):
        if not self.process_ids and asid != self.running:
            for page in [page for page in self.where if page[0] != asid]:
                self._drop(page)
        self.running = asid


class OnePage(Tlb):
    """Remembers the last page."""

    last = None

    def access(self, asid, vpn, kind, pte):
        hit = self.last == (asid, vpn)
        if not hit and self.last:
            self.unfilter(*self.last)
        self.last = asid, vpn
        return (HIT if hit else MISS) | FILTERABLE

    def invalidate(self, asid, start, stop):
        if self.last and self.last[0] == asid and start <= self.last[1] < stop:
            self.unfilter(*self.last)
            self.last = None
