//! The command lines that measure the numbers of a table, or of one of its rows, again.

use crate::results::{ALIGNED, PAGE_SIZES, Request, Results, Set, THEN, What};
use crate::study::Study;
use farreach_types::addr::Bytes;
use farreach_types::papers::{Program, Section};

/// With more machines than this, a command line is not readable any more.
const MACHINES: usize = 12;

/// Gives tables and rows their commands.
pub(super) fn add(study: &Study, results: &Results, set: &Set, section: &mut Section) {
    let plan = (study.plan)(results, set);
    let whole = line(&["farreach papers", study.id, &set.which, &set.servers, &set.how]);
    for table in &mut section.tables {
        table.command.clone_from(&whole);
        for row in &mut table.rows {
            // Heads are the name of a program, with the one it stands for in parentheses.
            let is = |p: &&Program| {
                row.name.strip_prefix(&p.name).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
            };
            if let Some(program) = set.all().find(is) {
                row.command = of_row(study, &plan, set, program).unwrap_or_default();
            }
        }
    }
}

/// The programs that these requests run, alone, behind each other or aligned.
pub(super) fn names(requests: &[Request]) -> impl Iterator<Item = &str> + Clone {
    requests
        .iter()
        .flat_map(|r| r.program.split(THEN))
        .map(|name| name.rsplit_once(ALIGNED).map_or(name, |(inner, _)| inner))
}

fn of_row(study: &Study, plan: &[Request], set: &Set, program: &Program) -> Option<String> {
    let (mut machines, mut sizes, mut alone) = (Vec::new(), false, true);
    for request in plan.iter().filter(|r| names(std::slice::from_ref(r)).any(|name| name == program.name)) {
        alone &= request.program == program.name;
        match &request.what {
            What::Machine(machine) if !machines.contains(&machine.as_str()) => machines.push(machine),
            What::Machine(_) => {}
            What::PageSizes => sizes = true,
        }
    }
    let some = sizes || !machines.is_empty();
    if some && alone && machines.len() <= MACHINES && !program.argument.is_empty() {
        let list: String = machines.iter().map(|m| format!("-m {m} ")).collect();
        if sizes {
            let sizes = PAGE_SIZES.map(|size| Bytes(size).to_string()).join(",");
            return Some(line(&[
                "farreach pagesize",
                &program.argument,
                "--no-policies --sizes",
                &sizes,
                list.trim_end(),
                &set.how,
            ]));
        }
        return Some(line(&["farreach sim", &program.argument, list.trim_end(), &set.how]));
    }
    if program.workload.is_empty() {
        return None;
    }
    let small = if set.which.contains("--small") { "--small" } else { "" };
    // What `sim` takes is no server.
    let servers = if program.argument.is_empty() { &set.servers } else { "" };
    Some(line(&["farreach papers", study.id, small, "-w", &program.workload, servers, &set.how]))
}

fn line(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{shown, study};

    fn set() -> Set {
        let program = |name: &str, argument: &str| Program {
            name: name.into(),
            stands_for: "gcc".into(),
            argument: argument.into(),
            workload: name.into(),
            ..Program::default()
        };
        let programs = vec![program("compiler", "workload:compiler:references=3M"), program("comp", "comp.frt")];
        Set { name: "small".into(), which: "--small".into(), how: "--seed 3".into(), programs, ..Set::default() }
    }

    fn rows(id: &str) -> Vec<(String, String)> {
        let section = shown(study(id).unwrap(), &Results::default(), &set());
        let tables = section.tables.into_iter();
        tables
            .flat_map(|t| t.rows.into_iter().map(move |row| (t.command.clone(), row.command)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn a_row_is_found_again_by_its_program_and_the_machines_of_the_table() {
        let whole = "farreach papers t94-table1 --small --seed 3";
        let table1 = rows("t94-table1");
        assert!(table1.iter().all(|(table, _)| table == whole));
        let row = |id: &str, i: usize| rows(id)[i].1.clone();
        let start = "farreach sim workload:compiler:references=3M -m t94/single -m t94/superpage -m ";
        assert!(
            row("t94-table6", 0).starts_with(start) && row("t94-table6", 0).ends_with(" --seed 3"),
            "{}",
            row("t94-table6", 0)
        );
        assert!(row("t94-table6", 1).starts_with("farreach sim comp.frt -m t94/single "));
        let sizes = "--no-policies --sizes 4K,8K,16K,32K,64K,128K,256K --seed 3";
        assert_eq!(row("ps-dtlb", 1), format!("farreach pagesize comp.frt {sizes}"));
    }

    #[test]
    fn only_rows_of_servers_have_options_for_servers() {
        let mut set = Set { servers: "--trap --size 1G".into(), which: String::new(), ..set() };
        let server = Program { name: "redis*".into(), workload: "redis".into(), ..Program::default() };
        set.large = set.programs.drain(..1).chain([server]).collect();
        let section = shown(study("ds13-table3").unwrap(), &Results::default(), &set);
        let commands: Vec<&str> = section.tables[0].rows.iter().map(|row| row.command.as_str()).collect();
        assert_eq!(section.tables[0].command, "farreach papers ds13-table3 --trap --size 1G --seed 3");
        assert_eq!(commands, ["farreach papers ds13-table3 -w redis --trap --size 1G --seed 3"]);
        set.large[0].stands_for = "graph500".into();
        let section = shown(study("ds13-table3").unwrap(), &Results::default(), &set);
        let simulated = section.tables[0].rows.iter().find(|row| row.name.starts_with("compiler")).expect("a row");
        assert!(simulated.command.starts_with("farreach sim ") && !simulated.command.contains("--trap"));
    }

    #[test]
    fn rows_of_many_machines_are_found_again_by_the_study() {
        let figure8 = study("sv97-fig8").unwrap();
        let (plan, set) = ((figure8.plan)(&Results::default(), &set()), set());
        assert!(plan.len() > MACHINES);
        let found = of_row(figure8, &plan, &set, &set.programs[0]);
        assert_eq!(found.as_deref(), Some("farreach papers sv97-fig8 --small -w compiler --seed 3"));
    }
}
