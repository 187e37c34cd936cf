//! What changes of mappings cost on several cores, by mechanism, and what page tables on nodes of memory do.

use crate::micro::{REFILLS, ROUNDS, TURNS_OF, UNMAPS, UNMAPS_APART};
use crate::results::{Request, Results, Set};
use crate::since::{counter, share};
use crate::study::Study;
use farreach_cost::cycles::shootdown_cycles;
use farreach_machine::MachineSpec;
use farreach_types::counts::MachineResult;
use farreach_types::papers::{Cell, Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "os-cores",
    title: "Shootdowns and page tables on several cores and nodes: interrupts, flushes, writes, walks",
    rules: "OS-SHD-1 to OS-SHD-10, OS-MIT-1 to OS-MIT-5, OS-NPT-1 to OS-NPT-3",
    plan: |_, _| {
        let of = |program: &'static str, machines: Vec<String>| {
            machines.into_iter().map(move |machine| Request::machine(program, machine))
        };
        let turns = TURNS_OF.into_iter().flat_map(|program| of(program, vec![ONE_CORE.into()]));
        of(UNMAPS, MECHANISMS.into_iter().flat_map(|(_, m)| CORES.map(|cores| on(m, cores))).collect())
            .chain(of(
                UNMAPS,
                NODES.iter().flat_map(|(_, m)| COUNTS_OF_NODES.map(|nodes| on_nodes(m, nodes))).collect(),
            ))
            .chain(of(UNMAPS_APART, APART.map(|mechanism| on(MECHANISMS[mechanism].1, 16)).to_vec()))
            .chain(of(REFILLS, CEILINGS.map(ceiling).to_vec()))
            .chain(turns)
            .chain(PROGRAMS.into_iter().flat_map(|p| of(p, NODES.iter().map(|(_, m)| (*m).to_owned()).collect())))
            .collect()
    },
    section,
};

/// How changes reach TLBs: its name in tables, and the machine. All have the TLBs of one processor.
pub(crate) const MECHANISMS: [(&str, &str); 6] = [
    ("interrupts to all", "since-os/pcid:shootdown=interrupts"),
    ("Linux on x86", "since-os/pcid"),
    ("Linux on x86, other cores idle", "since-os/pcid:other_cores=idle"),
    ("Arm", "since-os/pcid:shootdown=broadcast"),
    ("AMD INVLPGB", "since-os/pcid:shootdown=global_ids"),
    ("LATR", "since-os/pcid:shootdown=latr,latr_tick=2000"),
];
/// Places of Linux, INVLPGB and LATR among them.
pub(crate) const LINUX: usize = 1;
pub(crate) const INVLPGB: usize = 4;
pub(crate) const LATR: usize = 5;
/// Mechanisms that unmap buffers whose addresses are not used again.
const APART: [usize; 2] = [LINUX, LATR];
/// Numbers of cores.
pub(crate) const CORES: [u64; 4] = [2, 3, 4, 16];

/// The machine with this number of cores.
pub(crate) fn on(machine: &str, cores: u64) -> String {
    let sign = if machine.contains(':') { ',' } else { ':' };
    format!("{machine}{sign}cores={cores}")
}

/// Where page tables lie.
pub(crate) const NODES: [(&str, &str); 4] = [
    ("first touch", "since-os/numa"),
    ("away", "since-os/numa:numa_tables=away"),
    ("Mitosis", "since-os/mitosis"),
    ("numaPTE", "since-os/numapte"),
];
pub(crate) const FIRST_TOUCH: usize = 0;
pub(crate) const AWAY: usize = 1;
pub(crate) const MITOSIS: usize = 2;
pub(crate) const NUMAPTE: usize = 3;
/// Nodes of the machines with sixteen cores.
pub(crate) const COUNTS_OF_NODES: [u64; 2] = [4, 8];

pub(crate) fn on_nodes(machine: &str, nodes: u64) -> String {
    format!("{},numa_nodes={nodes}", on(machine, 16))
}

/// One core with the process ids of Linux.
pub(crate) const ONE_CORE: &str = "since-os/pcid:cores=1";
/// Mappings up to which Linux drops one by one; 33 is its own value.
pub(crate) const CEILINGS: [u64; 6] = [1, 16, 33, 64, 128, 512];

pub(crate) fn ceiling(most: u64) -> String {
    format!("{ONE_CORE},flush_ceiling={most}")
}

/// Loops dealt out to four threads, as in `since-cores`.
pub(crate) const PROGRAMS: [&str; 4] = [
    "workload:gups:references=2M,threads=4",
    "workload:kv:references=2M,threads=4",
    "workload:spmv:references=2M,threads=4",
    "workload:bfs:references=2M,threads=4",
];

/// A counter of shootdowns.
pub(crate) fn flushes(machine: &MachineResult, name: &str) -> u64 {
    counter(machine, "shootdown", name)
}

/// Cycles of the program, of translation and of the system.
pub(crate) fn time(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let measured = results.measured(program, machine)?;
    let cost = &measured.machine.cost;
    Some(measured.workload.instructions + cost.cycles + cost.os_cycles)
}

/// As before, without the program: what changes and refills cost.
pub(crate) fn overhead(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let cost = &results.machine(program, machine)?.cost;
    Some(cost.cycles + cost.os_cycles)
}

/// Cycles of what drops cost, on all cores together, by the prices of this machine.
pub(crate) fn drops(result: &MachineResult, machine: &str) -> u64 {
    let spec = MachineSpec::parse(machine, 0).expect("a machine of the study");
    shootdown_cycles(&result.counts.tlb, &spec.params)
}

/// Entries of page tables written, and interrupts, by an unmap with the mapping before it.
pub(crate) fn by_unmap(machine: &MachineResult) -> [f64; 2] {
    let writes = counter(machine, "table_copies", "pt_writes");
    [writes, machine.counts.tlb.shootdown.ipis].map(|count| count as f64 / ROUNDS as f64)
}

fn section(results: &Results, _: &Set, section: &mut Section) {
    let mut table = Table::new(
        "A buffer of four pages is mapped, used and unmapped, by each of sixteen threads in turn",
        "mechanism",
    );
    for cores in CORES {
        table.column(format!("{cores} cores, interrupts"), Origin::Measured, "a change");
    }
    for name in ["pages dropped one by one", "processes dropped", "broadcasts", "records", "records forced"] {
        table.column(format!("16 cores, {name}"), Origin::Measured, "");
    }
    for (name, machine) in MECHANISMS {
        let of = |cores| results.machine(UNMAPS, &on(machine, cores));
        let interrupts = CORES.map(|cores| Cell::from(of(cores).map(|m| by_unmap(m)[1])));
        let counts = ["local_inval_entry", "local_inval_all", "broadcast_inval", "records", "records_forced"];
        let counts = counts.map(|name| Cell::from(of(16).map(|m| flushes(m, name))));
        table.row(name, [&interrupts[..], &counts[..]].concat());
    }
    section.tables.push(table);

    let mut table = Table::new("The same at addresses that are not used again, sixteen cores", "mechanism");
    for (name, unit) in [("interrupts", "a change"), ("records", ""), ("records forced", ""), ("drops", "cycles")] {
        table.column(name, Origin::Measured, unit);
    }
    for mechanism in APART {
        let (name, machine) = MECHANISMS[mechanism];
        let machine = on(machine, 16);
        let result = results.machine(UNMAPS_APART, &machine);
        let of = |name| Cell::from(result.map(|m| flushes(m, name)));
        let interrupts = Cell::from(result.map(|m| by_unmap(m)[1]));
        let cycles = Cell::from(result.map(|m| drops(m, &machine)));
        table.row(name, vec![interrupts, of("records"), of("records_forced"), cycles]);
    }
    section.tables.push(table);

    let mut table = Table::new("The same program on nodes of memory, sixteen cores", "page tables");
    for nodes in COUNTS_OF_NODES {
        table.column(format!("{nodes} nodes, entries written"), Origin::Measured, "a change");
        table.column(format!("{nodes} nodes, interrupts"), Origin::Measured, "a change");
    }
    for (name, machine) in NODES {
        let of = |nodes| results.machine(UNMAPS, &on_nodes(machine, nodes)).map(by_unmap);
        let cells = COUNTS_OF_NODES.into_iter().flat_map(|nodes| [0, 1].map(|i| Cell::from(of(nodes).map(|m| m[i]))));
        table.row(name, cells.collect());
    }
    section.tables.push(table);

    let mut table = Table::new("Four threads on two nodes", "program");
    for (name, _) in NODES {
        table.column(format!("{name}, remote references"), Origin::Measured, "% of walks'");
        table.column(format!("{name}, time"), Origin::Measured, "% of first touch");
    }
    table.column("page tables", Origin::Measured, "% of resident memory");
    for p in PROGRAMS {
        let mut cells = Vec::new();
        let base = time(results, p, NODES[FIRST_TOUCH].1);
        for (_, machine) in NODES {
            let remote = results.machine(p, machine).map(|m| {
                let of = |name| counter(m, "numa", name);
                share(of("remote_references"), of("remote_references") + of("local_references"))
            });
            let mine = time(results, p, machine);
            cells.push(Cell::from(remote));
            cells.push(Cell::from(mine.zip(base).map(|(mine, base)| share(mine, base))));
        }
        cells.push(Cell::from(results.machine(p, NODES[FIRST_TOUCH].1).map(tables)));
        table.row(p, cells);
    }
    section.tables.push(table);

    let mut table = Table::new("64 pages are unmapped between loops over 256 pages, on one core", "flush_ceiling");
    for name in ["walks", "pages dropped one by one", "processes dropped"] {
        table.column(name, Origin::Measured, "");
    }
    table.column("walks and flushes", Origin::Measured, "cycles");
    for most in CEILINGS {
        let machine = ceiling(most);
        let of = |what: fn(&MachineResult) -> u64| Cell::from(results.machine(REFILLS, &machine).map(what));
        let cells = vec![
            of(|m| m.counts.tlb.misses),
            of(|m| flushes(m, "local_inval_entry")),
            of(|m| flushes(m, "local_inval_all")),
            Cell::from(overhead(results, REFILLS, &machine)),
        ];
        table.row(most.to_string(), cells);
    }
    section.tables.push(table);

    let mut table = Table::new("Processes that take ten turns each on one core, six process ids", "processes");
    table.column("flushed at switches", Origin::Measured, "");
    for (processes, program) in (2..).zip(TURNS_OF) {
        let flushed = results.machine(program, ONE_CORE).map(|m| flushes(m, "switch_flushes"));
        table.row(format!("{processes}"), vec![Cell::from(flushed)]);
    }
    section.tables.push(table);
    section.note(
        "Assumed are all prices: an interrupt 2,000 cycles, an instruction that drops a page 200, one that drops a \
         process 500, a broadcast 500, a record 400; memory of another node takes 100 cycles more, a further copy of an \
         entry 100. With LATR cores have a tick each 2,000 instructions. Remote references cost more only where memory answers them, and not a cache. The last-level cache is one for \
         all nodes, which is in favour of tables without copies. The entries of the 32 shared pages are among those of \
         the changes.",
    );
}

/// Pages of page tables in percent of the memory that they map.
pub(crate) fn tables(machine: &MachineResult) -> f64 {
    share(counter(machine, "table_copies", "pt_pages") << 12, machine.memory.resident_bytes)
}
