//! Which machines can have which tables.

use super::of_host::{HOST_TABLE, of_host};
use super::{RADIX_TREE, TABLE, TABLES, chosen};
use crate::tlb::parts::hierarchy::check_native;
use crate::tlb::parts::hierarchy::cores::CORES;
use crate::tlb::parts::hierarchy::host::{GUEST, HOST};
use farreach_types::params::{PAGE_SIZE, Params};

/// Refuses machines for which the table, or that of the host, is not defined (HW-12).
pub(in crate::tlb) fn check(params: &Params) -> Result<(), String> {
    let (guest, host) = (params.text(GUEST.name), params.text(HOST.name));
    let in_guests = |what: String| {
        let refuse = |with: String, why: &str| Err(format!("{what} is not allowed with {with}: {why}"));
        let cores = params.int(CORES.name);
        if guest != "walk" {
            let why = "no rule says what segments do beside such a table (HW-12); guest must be walk";
            return refuse(format!("guest = {guest}"), why);
        }
        if cores > 1 {
            return refuse(format!("cores = {cores}"), "it is not defined on several cores (HW-12); cores must be 1");
        }
        if params.int(PAGE_SIZE.name) != 4096 {
            return refuse("such a page_size".into(), "its tables are those of x86-64; page_size must be 4K");
        }
        Ok(())
    };
    if let Some(table) = chosen(params) {
        let what = format!("{} = {}", TABLE.name, table.name);
        if guest == GUEST.default || !table.in_guests {
            check_native(params, &what)?;
        } else {
            in_guests(what.clone())?;
            if !["walk", "segment"].contains(&host) {
                return Err(format!(
                    "{what} is not allowed with host = {host}: merged tables are radix trees (SHD-1); host must be \
                     walk or segment, or table must be radix"
                ));
            }
        }
    }
    let name = params.text(HOST_TABLE.name);
    if name == RADIX_TREE {
        return Ok(());
    }
    let what = format!("{} = {name}", HOST_TABLE.name);
    if guest == GUEST.default {
        return Err(format!(
            "{what} is not allowed with guest = {guest}: there is no virtual machine; guest must be walk"
        ));
    }
    if of_host(name).is_none() {
        let others = TABLES.iter().filter(|table| table.in_guests).map(|table| table.name);
        let all: Vec<_> = [RADIX_TREE].into_iter().chain(others).collect();
        return Err(format!(
            "{what} is not allowed: it is not defined in virtual machines (HW-12); {} must be one of {}",
            HOST_TABLE.name,
            all.join(", ")
        ));
    }
    in_guests(what.clone())?;
    if host != HOST.default {
        return Err(format!(
            "{what} is not allowed with host = {host}: such a host walks no table of its own, or a radix tree; host \
             must be walk"
        ));
    }
    Ok(())
}
