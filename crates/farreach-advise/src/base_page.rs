//! A kernel with base pages of 64 KB, for processors that have them.

use super::change::{Change, Program};
use farreach_hw::tlb::array_shapes;
use farreach_live::system::System;
use farreach_machine::MachineSpec;
use farreach_native::this::policy::mode;

/// log2 of the pages of 4 KB in one of 64 KB.
const ORDER: u8 = 4;

/// The row of such a kernel, if both first-level TLBs of the processor have pages of 64 KB, as those of Arm's servers.
///
/// # Errors
/// The arrays of the machine are not those of a hierarchy that can be built.
pub fn change(system: &System, program: &Program, machine: &MachineSpec) -> Result<Option<Change>, String> {
    let params = &machine.params;
    for key in ["l1d", "l1i"] {
        if !params.has(key) || !array_shapes(params, key)?.iter().any(|array| array.orders.contains(&ORDER)) {
            return Ok(None);
        }
    }
    // Its huge pages have 512 MB.
    let mode = if program.thp_disabled { "never".into() } else { mode(system.thp.as_ref()) };
    let keys = format!("placement=linux,pages_to_scan=0,thp={mode},thp_size=512M,page_size=64K");
    Ok(Some(Change {
        name: "kernel-64k".into(),
        words: "kernel with pages of 64K".into(),
        keys,
        risk: "all: memory, another kernel".into(),
        untried: Some("it needs another kernel, so the machine must be started anew".into()),
        by_hand: vec![
            "Red Hat 9: sudo dnf install kernel-64k; sudo grubby --set-default /boot/vmlinuz*+64k; sudo reboot".into(),
            "Ubuntu: sudo apt install linux-generic-64k; sudo reboot".into(),
            "others: a kernel with CONFIG_ARM64_64K_PAGES".into(),
        ],
        undo_by_hand: vec![
            "start the kernel of before: sudo grubby --set-default KERNEL, or its line of the boot menu".into(),
        ],
        reach: 5,
        ..Change::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_with_such_pages_have_the_row() {
        let of = |machine: &str| {
            let spec = MachineSpec::parse(machine, 0).unwrap();
            let program = Program { thp_disabled: true, ..Program::default() };
            change(&System::default(), &program, &spec).unwrap().map(|change| change.keys)
        };
        let keys = "placement=linux,pages_to_scan=0,thp=never,thp_size=512M,page_size=64K";
        for arm in ["today/neoverse-n1", "today/neoverse-v1", "today/neoverse-v2", "today/neoverse-v3"] {
            assert_eq!(of(arm).as_deref(), Some(keys));
            assert!(MachineSpec::parse(&format!("{arm}:{keys}"), 0).is_ok());
        }
        assert_eq!([of("today/zen3"), of("today/golden-cove"), of("t94/single")], [None, None, None]);
    }
}
