//! Page tables on nodes of memory (OS-MIT, OS-NPT), with an operating system. The placements themselves are tested
//! beside their code, in `farreach-hw`.

use crate::common::run;
use crate::cores::stream;
use farreach_types::counts::{MachineResult, TlbCounts};

const SMALL: &str = "cores=4,l1d=4K:8,l1i=4K:4,l2=4K:16,memory=64M";

fn of(machine: &MachineResult, part: &str, names: &[&str]) -> Vec<u64> {
    names.iter().map(|name| machine.counts.tlb.parts.count(part, name)).collect()
}

/// OS-MIT-5: no placement changes a translation. Debug builds compare each with the page table (XC-3), with and without
/// shortcuts; so a core that is not interrupted has nothing to drop (OS-NPT-2).
#[test]
fn os_mit_5_nodes_change_no_translation() {
    let machines = [
        format!("ds13/4k:{SMALL}"),
        format!("ds13/4k:numa_tables=first_touch,{SMALL}"),
        format!("ds13/4k:numa_tables=away,{SMALL}"),
        format!("ds13/4k:numa_tables=replicated,numa_nodes=4,{SMALL}"),
        format!("ds13/4k:numa_tables=on_demand,numa_nodes=4,{SMALL}"),
        format!("ds13/4k:numa_tables=on_demand,numa_prefetch=0,{SMALL}"),
        format!("rmm15/thp:numa_tables=on_demand,numa_nodes=4,thp_size=64K,{SMALL}"),
        format!("rmm15/thp:kind=hierarchy,numa_tables=on_demand,numa_prefetch=2,walk_cost=caches,{SMALL}"),
        format!("ds13/4k:numa_tables=replicated,shootdown=generations,{SMALL}"),
    ];
    let reads = ["local_references", "remote_references", "remote_memory"];
    let work = ["pt_pages", "pt_copies", "pt_writes", "replica_writes", "light_faults", "copied_entries"];
    for seed in 20..26 {
        let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
        let plain = &out.machine(0).counts.tlb;
        for i in 1..6 {
            let with = &out.machine(i).counts.tlb;
            let held = |tlb: &TlbCounts| (tlb.misses, tlb.fills, tlb.evictions, tlb.invalidations);
            assert_eq!(held(with), held(plain), "{i}");
            let read = of(out.machine(i), "numa", &reads);
            assert_eq!(read[0] + read[1], with.walk_references(), "{i}");
            assert_eq!(read[1], read[2], "with fixed prices all are of memory");
        }
        let [first, away, mitosis, numapte, single] =
            [1, 2, 3, 4, 5].map(|i| of(out.machine(i), "table_copies", &work));
        assert_eq!(first[..3], away[..3]);
        assert_eq!((first[1], first[3..].iter().sum::<u64>()), (0, 0));
        assert_eq!(mitosis, [4 * first[0], 3 * first[0], 4 * first[2], 3 * first[2], 0, 0]);
        assert_eq!(of(out.machine(2), "numa", &reads[..1]), [0], "nothing is local");
        assert_eq!(of(out.machine(3), "numa", &reads[1..]), [0, 0], "nothing is remote");
        assert_eq!(of(out.machine(4), "numa", &reads[1..]), [0, 0], "nothing is remote");
        assert!(numapte[1] > 0 && numapte[1] < mitosis[1] && numapte[3] < mitosis[3], "{numapte:?}, {mitosis:?}");
        assert!(single[4] > 0 && numapte[4] > 0, "light faults: {single:?} {numapte:?}");
        let ipis = [0, 4].map(|i| out.machine(i).counts.tlb.shootdown.ipis);
        assert!(ipis[1] <= ipis[0], "{ipis:?}");
    }
}
