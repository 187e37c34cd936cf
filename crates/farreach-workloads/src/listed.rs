//! The catalogue as a list: every workload, with what it lacks on this machine.

use std::collections::BTreeSet;

use farreach_kernels::{KERNELS, Kernel};
use serde_json::{Value, json};

use crate::Workload;
use crate::catalogue::{Program, programs};
use crate::prepare::installed;

/// A workload of the catalogue, as this machine has it.
#[derive(Clone)]
pub struct Listed {
    /// What it is.
    pub workload: Workload,
    /// Debian packages that it needs and that are not installed.
    pub missing: BTreeSet<String>,
}

/// Every workload: kernels, then programs, each in the order of its list. Asks dpkg, once.
pub fn catalogue() -> Vec<Listed> {
    let there = installed(programs().iter().flat_map(|program| &program.packages).map(String::as_str));
    let kernels = KERNELS.iter().map(Workload::Kernel);
    let all = kernels.chain(programs().iter().map(Workload::Program));
    all.map(|workload| Listed::among(workload, &there)).collect()
}

impl Listed {
    /// This workload. Asks dpkg for its packages.
    pub fn of(workload: Workload) -> Listed {
        let packages: &[String] = match workload {
            Workload::Kernel(_) => &[],
            Workload::Program(program) => &program.packages,
        };
        Listed::among(workload, &installed(packages.iter().map(String::as_str)))
    }

    /// `there`: installed packages.
    fn among(workload: Workload, there: &BTreeSet<String>) -> Listed {
        let missing = match workload {
            Workload::Kernel(_) => BTreeSet::new(),
            Workload::Program(program) => {
                program.packages.iter().filter(|name| !there.contains(*name)).cloned().collect()
            }
        };
        Listed { workload, missing }
    }

    /// Whether it can run here.
    pub fn is_installed(&self) -> bool {
        self.missing.is_empty()
    }

    /// All that the catalogue says of it, as a JSON object: a row of schema `farreach.workloads/1`. Sizes are in bytes.
    pub fn json(&self) -> Value {
        match self.workload {
            Workload::Kernel(kernel) => kernel_json(kernel),
            Workload::Program(program) => program_json(program, self.is_installed()),
        }
    }
}

fn kernel_json(kernel: &Kernel) -> Value {
    json!({
        "name": format!("kernel/{}", kernel.name), "type": "kernel", "kind": kernel.class,
        "stands_for": kernel.stands_for, "about": kernel.about,
        "footprint": kernel.default_size, "small_size": kernel.small_size, "smallest": kernel.smallest,
        "largest": kernel.largest, "text_pages": kernel.text_pages, "installed": true,
    })
}

fn program_json(program: &Program, installed: bool) -> Value {
    let mut value = json!({ "name": program.name, "type": "program", "installed": installed });
    if let (Value::Object(to), Ok(Value::Object(from))) = (&mut value, serde_json::to_value(program)) {
        to.extend(from);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn every_workload_is_listed_once_and_found_by_its_name() {
        let all = catalogue();
        assert_eq!(all.len(), KERNELS.len() + programs().len());
        for listed in &all {
            let row = listed.json();
            let name = row["name"].as_str().unwrap();
            assert_eq!(Listed::of(find(name).unwrap()).json(), row, "{name}");
            assert_eq!(row["installed"], listed.is_installed(), "{name}");
            assert!(row["footprint"].as_u64() > Some(0), "{name}");
        }
    }
}
