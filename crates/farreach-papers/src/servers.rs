//! Servers in their steady state: filled first, then observed by their traps (T94-70).

use crate::commands::names;
use crate::results::{Request, Results, Set, What};
use crate::study::Study;
use farreach_types::counts::{NativeUse, TrapUse};
use farreach_types::papers::Section;

/// The studies whose numbers of a server can come from its traps: none of them needs lookups, or the order of hits.
pub const BY_TRAPS: [&str; 6] = ["ds13-table3", "ds13-table4", "ds13-table5", "ds13-fig4", "rmm15-fig6", "rmm15-fig7"];

/// The machine in whose place this one is driven by traps. Only the policy of the first level differs, whose hits are
/// not seen (T94-71); the others have what they need for LRU.
pub fn by_traps(machine: &str) -> String {
    let colon = if machine.contains(':') { ',' } else { ':' };
    format!("{machine}{colon}l1_replacement=used-bit")
}

/// Notes about the servers of a study, if there are any.
pub(super) fn add_notes(study: &Study, results: &Results, set: &Set, section: &mut Section) {
    let plan = (study.plan)(results, set);
    let mut some = false;
    for program in set.large.iter().filter(|p| names(&plan).any(|name| name == p.name)) {
        let of = |request: &Request| match &request.what {
            What::Machine(machine) if request.program == program.name => results.measured(&program.name, machine),
            _ => None,
        };
        let Some(traps) = plan.iter().find_map(of).and_then(|m| m.workload.traps.as_ref()) else { continue };
        section.note(observed(&program.name, traps));
        some = true;
    }
    if some {
        section.note(
            "A server that was observed by its traps: all counts are of the last command of its load, with what the \
             program mapped before. First levels replace by used bits in place of LRU, because hits are not seen; all \
             behind them is as described. Time is the server's user time for the same requests in a run without traps, \
             in cycles, in place of instructions at 1 cycle; it has this processor's own walks and misses of its \
             caches in it, so that shares of time are low rather than high. Regions live for a share of the time by \
             the clock, of which the observed part takes most.",
        );
    }
}

fn observed(name: &str, traps: &TrapUse) -> String {
    let time = match &traps.native {
        Some(native) => {
            let NativeUse { user_microseconds, kilohertz } = native;
            let (seconds, gigahertz) = (*user_microseconds as f64 / 1e6, *kilohertz as f64 / 1e6);
            format!("; the same work without traps takes {seconds:.2} s of user time at {gigahertz:.2} GHz")
        }
        None => String::new(),
    };
    let own = traps.own_microseconds as f64 / 1e6;
    format!(
        "{name}: in its steady state, {} traps in {:.0} s{time}. (With traps, and to fill it: {own:.2} s.)",
        traps.simulated,
        traps.microseconds as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::study;
    use farreach_machine::{MachineSpec, TrapLab};

    /// Every machine of every such study can be driven by traps, all of them at once, and the first not as it is.
    #[test]
    fn t94_71_machines_of_these_studies_can_be_driven_by_traps() {
        let program = farreach_types::papers::Program { name: "server".into(), ..Default::default() };
        let set = Set { large: vec![program], ..Set::default() };
        let mut machines = std::collections::BTreeSet::new();
        for id in BY_TRAPS {
            for request in (study(id).expect("an id").plan)(&Results::default(), &set) {
                let What::Machine(machine) = request.what else { panic!("{id} wants page sizes") };
                machines.insert(machine);
            }
        }
        let lab = |machines: Vec<String>| {
            TrapLab::new(machines.iter().map(|machine| MachineSpec::parse(machine, 0).unwrap()).collect(), 0)
        };
        assert!(lab(machines.first().cloned().into_iter().collect()).is_err());
        // What is compared comes from one run.
        lab(machines.iter().map(|machine| by_traps(machine)).collect()).unwrap();
    }
}
