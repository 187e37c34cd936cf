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

impl Bench<'_> {
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

    /// A lookup of the page that was filled last; it must give what was filled.
    fn finds(&mut self, fill: &Request) -> Result<(), String> {
        let lookup = Request { kind: Kind::Load, ..Request::new(Op::Lookup, fill.asid, fill.page) };
        self.hits = 0;
        self.run(&[lookup])?;
        let wanted = if fill.limit > 0 { fill.page.wrapping_add(fill.frame) } else { fill.frame };
        let (wanted, found) = (wanted & ((1 << self.frames) - 1), self.gates.output("ans_pfn"));
        match self.hits == 1 && found == wanted {
            true => Ok(()),
            false => Err(format!("{fill}: then page {:#x} has frame {found:#x} ({} hits)", fill.page, self.hits)),
        }
    }
}

/// What a netlist takes for a piece of a program.
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
    // A fill is for a page that missed. A structure with more entries than that of the excerpt may have it still, so
    // each page is filled once.
    let mut filled = HashSet::new();
    let mut once = |fills: &[Request]| -> Vec<Request> {
        let page = |fill: &&Request| filled.insert((fill.asid, fill.page, fill.size));
        fills.iter().filter(page).cloned().collect()
    };
    let (contents, fills) = (once(&excerpt.contents), once(&excerpt.fills));
    bench.run(&contents)?;
    let taken = |bench: &mut Bench, requests: Option<&[Request]>| -> Result<(f64, u64), String> {
        bench.gates.toggles.fill(0);
        let cycles = match requests {
            Some(requests) => bench.run(requests)?,
            None => {
                (0..IDLE).for_each(|_| _ = bench.cycle(None, &[]));
                IDLE
            }
        };
        Ok((power.energy(&bench.gates.toggles), cycles))
    };
    let (idle, cycles) = taken(&mut bench, None)?;
    let idle = idle / cycles as f64;
    let each = |(energy, cycles): (f64, u64), n: usize| (energy - idle * cycles as f64) / n.max(1) as f64;
    bench.hits = 0;
    let lookup = each(taken(&mut bench, Some(&excerpt.lookups))?, excerpt.lookups.len());
    let hits = bench.hits as f64 / excerpt.lookups.len().max(1) as f64;
    let fill = taken(&mut bench, Some(&fills))?;
    let fill = (!fills.is_empty()).then(|| each(fill, fills.len()));
    if let Some(last) = fills.last().or(contents.last()) {
        bench.finds(last)?;
    }
    if bench.stray_reads > 0 {
        return Err(format!("{} reads of memory where there is no table", bench.stray_reads));
    }
    Ok(Energies { clock: power.clock, idle, lookup, fill, hits })
}
