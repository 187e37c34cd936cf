//! Carrefour-LP (CLP-1, CLP-2) on machines: walks reach the system with shortcuts and without, and its nodes are those
//! of the hardware.

use crate::common::{Stream, run};
use crate::cores::stream;
use farreach_machine::MachineSpec;
use farreach_types::counts::MachineResult;
use farreach_types::event::{Backing, Op, Prot};

const SMALL: &str = "cores=4,l1d=4K:8,l1i=4K:4,l2=4K:16,memory=64M";
const OWN: &str = "placement=carrefour,thp_size=64K,khugepaged=8,max_ptes_none=15,ticks_per_ms=1,\
                   carrefour_period_ms=60,carrefour_least_samples=1";

fn own<const N: usize>(machine: &MachineResult, names: [&str; N]) -> [u64; N] {
    names.map(|name| machine.counts.os.policy.get(name))
}

/// Debug builds compare each translation with the page table (OSC-5d).
#[test]
fn clp_1_shortcuts_change_nothing_when_pages_move_to_other_nodes() {
    let machines = [
        format!("rmm15/thp:{OWN},{SMALL}"),
        format!("rmm15/thp:{OWN},carrefour_hot=100,carrefour_walks=100,carrefour_nodes=4,{SMALL}"),
        format!("ds13/4k:{OWN},carrefour_hot=100,carrefour_walks=100,carrefour_faults=100,{SMALL}"),
        format!("rmm15/thp:kind=hierarchy,numa_tables=on_demand,{OWN},{SMALL}"),
        format!("rmm15/thp:{OWN},shootdown=generations,carrefour_sample=3,memory=4M,cores=2"),
        format!("today/skylake:{OWN},carrefour_nodes=1"),
        "today/skylake:placement=thp,thp_size=64K,khugepaged=8,max_ptes_none=15".to_owned(),
    ];
    for seed in 40..46 {
        let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
        for i in 0..4 {
            let [local, remote] = own(out.machine(i), ["walk_samples_local", "walk_samples_remote"]);
            assert_eq!(local + remote, out.machine(i).counts.tlb.misses, "{i}: each walk is a sample");
            let [periods, copied] = own(out.machine(i), ["carrefour_periods", "carrefour_copied_pages"]);
            assert!(periods > 5 && copied > 0, "{i}: {periods} {copied}");
        }
        assert!(own(out.machine(1), ["carrefour_splits"]) > [0], "{seed}");
        assert_eq!(out.machine(5).counts, out.machine(6).counts, "with one node it is thp");
    }
}

/// Threads in another order than by number, whose pages lie in page tables of their own but for the root. Each load
/// of a page by a thread is a walk of four references.
#[test]
fn clp_1_threads_are_on_the_nodes_of_the_hardware() {
    let page = |i: u64| (1 + i) << 27;
    let threads = [1, 3, 2, 5, 4];
    // Four cores on two nodes.
    let nodes = [0, 0, 1, 1, 0];
    let mut s = Stream::new();
    s.start().op(Op::ThreadStart { thread: 1 });
    for (i, thread) in (0..).zip(threads) {
        s.op(Op::Switch { thread });
        s.map(page(i), 1, Prot::RW, false, Backing::Anonymous).store(page(i));
    }
    for thread in threads {
        s.op(Op::Switch { thread }).loads((0..5).map(page));
    }
    let tlbs = "cores=4,l1d=4K:1,l1i=4K:1,l2=4K:1,pwc_pd=0,pwc_pdpt=0,pwc_pml4=0";
    let machine = format!("since-os/carrefour:numa_tables=first_touch,{tlbs}");
    let out = run(&[&machine], &s);
    let machine = out.machine(0);
    let walks = || nodes.iter().flat_map(|node| nodes.map(|home| (*node, home)));
    let remote = walks().filter(|(node, home)| node != home).count() as u64;
    // Each first store was a walk, too, for a page of its own node.
    let all = walks().count() as u64 + 5;
    let samples = own(machine, ["walk_samples_local", "walk_samples_remote"]);
    assert_eq!((machine.counts.tlb.misses, samples), (all, [all - remote, remote]));
    // The root lies on node 0.
    let by_node_1 = walks().filter(|(node, _)| *node == 1).count() as u64 + 2;
    let parts = &machine.counts.tlb.parts;
    assert_eq!(parts.count("numa", "remote_references"), 3 * remote + by_node_1);
}

#[test]
fn what_nodes_need_is_said() {
    let refused = |keys: &str| {
        MachineSpec::parse(&format!("since-os/carrefour:{keys}"), 0)
            .and_then(|spec| farreach_machine::Lab::new(vec![spec], Default::default()).map(|_| ()))
    };
    let why = |keys: &str| refused(keys).expect_err(keys).to_string();
    assert!(why("carrefour_nodes=3").contains("cores = 4"), "{}", why("carrefour_nodes=3"));
    let tables = why("numa_tables=first_touch,numa_nodes=4");
    assert!(tables.contains("carrefour_nodes = 2") && tables.contains("numa_nodes = 4"), "{tables}");
    let caches = why("walk_cost=caches");
    assert!(caches.contains("carrefour_nodes = 2") && caches.contains("must be 1"), "{caches}");
    assert!(refused("carrefour_nodes=1,walk_cost=caches").is_ok() && refused("cores=1").is_ok());
}
