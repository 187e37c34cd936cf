//! A netlist through requests of a program, and the energy that each kind takes.

use super::gates::Gates;
use super::liberty::Library;
use super::netlist::Netlist;
use super::power::Power;
use crate::excerpt::Excerpt;
use crate::modules::Parameters;
use crate::request::{Op, Request};
use farreach_types::event::Kind;
use std::collections::HashSet;

/// Energies in pJ.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Energies {
    /// Of the clock, at each cycle.
    pub clock: f64,
    /// Of everything else in a cycle without a request.
    pub idle: f64,
    /// Of a lookup, beyond the cycles it takes.
    pub lookup: f64,
    /// Of a fill, as before; `None` if nothing is filled.
    pub fill: Option<f64>,
    /// Share of the lookups that hit.
    pub hits: f64,
}

/// Cycles without a request that are looked at.
const IDLE: u64 = 64;
/// Cycles after the answer to a fill in which what it changes is written.
const SETTLE: u64 = 2;
/// Cycles in which a request must be answered.
const PATIENCE: u64 = 100_000;

/// The bench of `rtl/harness.cpp`, for cells.
struct Bench<'a> {
    gates: Gates<'a>,
    frames: u32,
    attributes: u32,
    cycles: u64,
    /// What memory is about to answer, and in how many cycles.
    memory: (u64, u32),
    hits: u64,
    /// A read of memory where the request has none.
    stray_reads: u64,
}

impl<'a> Bench<'a> {
    /// After reset.
    fn new(netlist: &'a Netlist, parameters: &Parameters) -> Bench<'a> {
        let width = |name: &str, default: u64| parameters.get(name).unwrap_or(default) as u32;
        let (frames, attributes) = (width("PFN_W", 36), width("ATTR_W", 8));
        let gates = Gates::new(netlist, 1);
        let mut bench = Bench { gates, frames, attributes, cycles: 0, memory: (0, 0), hits: 0, stray_reads: 0 };
        bench.gates.set("rst", &[1]);
        (0..4).for_each(|_| _ = bench.cycle(None, &[]));
        bench.gates.set("rst", &[0]);
        bench.cycle(None, &[]);
        // Before the reset registers hold anything, and may ask memory for it.
        bench.stray_reads = 0;
        bench
    }

    /// One lookup by itself; whether it hit.
    fn hits(&mut self, lookup: &Request) -> Result<bool, String> {
        self.hits = 0;
        self.run(std::slice::from_ref(lookup))?;
        Ok(self.hits == 1)
    }

    fn ask(&mut self, request: &Request) {
        let Request { op, kind, asid, page, limit, frame, root, attr, size, further } = request;
        let fetch = *kind == Kind::Fetch;
        let store = *kind == Kind::Store;
        let gates = &mut self.gates;
        gates.set("req_op", &[*op as u64]);
        gates.set("req_fetch", &[fetch.into()]);
        gates.set("req_store", &[store.into()]);
        for (port, value) in [
            ("req_asid", u64::from(*asid)),
            ("req_vpn", *page),
            ("req_limit", *limit),
            ("req_pfn", *frame),
            ("req_attr", u64::from(*attr)),
            ("req_size", u64::from(*size)),
            ("req_root", *root),
        ] {
            gates.set(port, &[value]);
        }
        let mut line = Vec::new();
        let mut at = 0u32;
        let mut push = |value: u64, width: u32| {
            for i in 0..width {
                if at.is_multiple_of(64) {
                    line.push(0);
                }
                *line.last_mut().expect("it was just pushed") |= (value >> i & 1) << (at % 64);
                at += 1;
            }
        };
        for &pte in further.iter().filter(|_| *op == Op::Fill) {
            push(pte & 0xff, self.attributes);
            push(pte >> 8, self.frames);
            push(pte >> 63, 1);
        }
        gates.set("req_line", &line);
    }

    /// One cycle; whether a request was accepted, and whether there was an answer.
    fn cycle(&mut self, request: Option<&Request>, memory: &[u64]) -> (bool, bool) {
        self.gates.set("req_valid", &[request.is_some().into()]);
        if let Some(request) = request {
            self.ask(request);
        }
        self.gates.set("mem_ready", &[u64::from(!self.cycles.is_multiple_of(3))]);
        self.gates.set("mem_answer", &[u64::from(self.memory.1 == 1)]);
        if self.memory.1 == 1 {
            self.gates.set("mem_data", &[self.memory.0]);
        }
        self.gates.settle();
        let accepted = request.is_some() && self.gates.output("req_ready") == 1;
        let answered = self.gates.output("ans_valid") == 1;
        self.hits += u64::from(answered && self.gates.output("ans_hit") == 1);
        self.memory.1 = self.memory.1.saturating_sub(1);
        if self.gates.output("mem_valid") == 1 && !self.cycles.is_multiple_of(3) {
            let address = self.gates.output("mem_addr");
            let known = memory.chunks_exact(2).find(|pair| pair[0] == address);
            self.stray_reads += u64::from(known.is_none());
            self.memory = (known.map_or(0, |pair| pair[1]), 2);
        }
        self.gates.clock();
        self.cycles += 1;
        (accepted, answered)
    }

    /// All of these, and until all are answered; how many cycles it took.
    fn run(&mut self, requests: &[Request]) -> Result<u64, String> {
        let (begin, mut next, mut answers) = (self.cycles, 0, 0);
        let mut memory: &[u64] = &[];
        while answers < requests.len() {
            let (accepted, answered) = self.cycle(requests.get(next), memory);
            if accepted {
                // Walkers have one request at a time: it reads its own memory.
                memory = &requests[next].further;
                next += 1;
            }
            answers += usize::from(answered);
            if self.cycles - begin > PATIENCE + requests.len() as u64 * PATIENCE {
                return Err("a request that is never answered".into());
            }
        }
        Ok(self.cycles - begin)
    }

    /// A fill, and until it is written; how many cycles it took.
    fn fill(&mut self, fill: &Request) -> Result<u64, String> {
        let cycles = self.run(std::slice::from_ref(fill))?;
        (0..SETTLE).for_each(|_| _ = self.cycle(None, &[]));
        Ok(cycles + SETTLE)
    }

    /// A lookup of the page that was filled last; it must give what was filled.
    fn finds(&mut self, fill: &Request) -> Result<(), String> {
        self.hits(&looked_up(fill))?;
        let wanted = if fill.limit > 0 { fill.page.wrapping_add(fill.frame) } else { fill.frame };
        let (wanted, found) = (wanted & ((1 << self.frames) - 1), self.gates.output("ans_pfn"));
        match self.hits == 1 && found == wanted {
            true => Ok(()),
            false => Err(format!("{fill}: then page {:#x} has frame {found:#x} ({} hits)", fill.page, self.hits)),
        }
    }
}

/// What a structure of some size is asked, from an excerpt that one of another size may have left: lookups in a row,
/// then a fill for the last of them, if it missed.
struct Step<'a> {
    lookups: &'a [Request],
    fill: Option<&'a Request>,
}

/// What is filled for this lookup. `region`: log2 of the pages of an entry that has a place for each.
fn fill_for<'a>(known: &[&'a Request], lookup: &Request, region: u64) -> Option<&'a Request> {
    let is = |fill: &&&Request| {
        let pages = match u64::from(fill.size) {
            _ if fill.limit > 0 => fill.page..fill.limit,
            size if size > region => fill.page..fill.page + (1 << size),
            _ => fill.page..fill.page + 1,
        };
        fill.asid == lookup.asid && pages.contains(&lookup.page)
    };
    known.iter().rev().find(is).copied()
}

/// The steps of an excerpt, found out by its lookups one by one; then the fills that were not needed, of pages that are
/// not there.
fn steps<'a>(
    bench: &mut Bench<'_>,
    contents: &[&'a Request],
    excerpt: &'a Excerpt,
    region: u64,
) -> Result<Vec<Step<'a>>, String> {
    let known: Vec<&Request> = contents.iter().copied().chain(&excerpt.fills).collect();
    let (mut steps, mut from) = (Vec::new(), 0);
    let mut done = HashSet::new();
    for (i, lookup) in excerpt.lookups.iter().enumerate() {
        let fill = if bench.hits(lookup)? { None } else { fill_for(&known, lookup, region) };
        if let Some(fill) = fill {
            bench.fill(fill)?;
            done.insert((fill.asid, fill.page, fill.size));
            steps.push(Step { lookups: &excerpt.lookups[from..=i], fill: Some(fill) });
            from = i + 1;
        }
    }
    steps.push(Step { lookups: &excerpt.lookups[from..], fill: None });
    for fill in &excerpt.fills {
        if done.insert((fill.asid, fill.page, fill.size)) && !bench.hits(&looked_up(fill))? {
            bench.fill(fill)?;
            steps.push(Step { lookups: &[], fill: Some(fill) });
        }
    }
    Ok(steps)
}

/// The lookup of the page of a fill.
fn looked_up(fill: &Request) -> Request {
    Request { kind: Kind::Load, ..Request::new(Op::Lookup, fill.asid, fill.page) }
}

/// What a netlist takes for a piece of a program: its lookups in their order, with a fill for each that misses.
///
/// # Errors
/// A request is never answered, the page filled last is not found, or memory is read where there is none: the netlist
/// does not do what the module does.
pub fn energies(
    netlist: &Netlist,
    library: &Library,
    parameters: &Parameters,
    excerpt: &Excerpt,
) -> Result<Energies, String> {
    let power = Power::new(netlist, library);
    let region = u64::from(parameters.get("FACTOR").unwrap_or(1).ilog2());
    let mut known = HashSet::new();
    let contents: Vec<&Request> =
        excerpt.contents.iter().filter(|fill| known.insert((fill.asid, fill.page, fill.size))).collect();
    let begin = || {
        let mut bench = Bench::new(netlist, parameters);
        contents.iter().try_for_each(|fill| bench.fill(fill).map(|_| ()))?;
        Ok::<_, String>(bench)
    };
    let steps = steps(&mut begin()?, &contents, excerpt, region)?;
    let mut bench = begin()?;
    let taken = |bench: &mut Bench, run: &dyn Fn(&mut Bench) -> Result<u64, String>| -> Result<(f64, u64), String> {
        bench.gates.toggles.fill(0);
        let cycles = run(bench)?;
        Ok((power.energy(&bench.gates.toggles), cycles))
    };
    bench.gates.toggles.fill(0);
    (0..IDLE).for_each(|_| _ = bench.cycle(None, &[]));
    let idle = power.energy(&bench.gates.toggles) / IDLE as f64;
    // Energy beyond idle cycles, and how many requests took it.
    let (mut lookups, mut fills, mut hits) = ((0.0, 0u64), (0.0, 0u64), 0);
    let add = |sum: &mut (f64, u64), (energy, cycles): (f64, u64), n: usize| {
        *sum = (sum.0 + energy - idle * cycles as f64, sum.1 + n as u64);
    };
    for Step { lookups: in_a_row, fill } in &steps {
        if in_a_row.is_empty()
            && let Some(fill) = fill
        {
            bench.hits(&looked_up(fill))?;
        }
        bench.hits = 0;
        add(&mut lookups, taken(&mut bench, &|bench| bench.run(in_a_row))?, in_a_row.len());
        hits += bench.hits;
        if let Some(fill) = fill {
            add(&mut fills, taken(&mut bench, &|bench| bench.fill(fill))?, 1);
        }
    }
    if let Some(last) = steps.iter().rev().find_map(|step| step.fill).or(contents.last().copied()) {
        bench.finds(last)?;
    }
    if bench.stray_reads > 0 {
        return Err(format!("{} reads of memory where there is no table", bench.stray_reads));
    }
    let each = |(energy, n): (f64, u64)| (n > 0).then(|| energy / n as f64);
    Ok(Energies {
        clock: power.clock,
        idle,
        lookup: each(lookups).unwrap_or(0.0),
        fill: each(fills),
        hits: hits as f64 / lookups.1.max(1) as f64,
    })
}
