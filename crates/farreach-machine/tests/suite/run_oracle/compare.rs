//! Runs both sides and lists the differences.

use super::*;

pub(super) fn simulate(
    machines: &[Machine],
    batches: &[Batch],
    options: Options,
) -> Result<(RunResult, Vec<Vec<EntryView>>), farreach_types::Error> {
    let mut lab = Lab::new(specs(machines, options.seed), options)?;
    for batch in batches {
        lab.feed(batch)?;
    }
    Ok((lab.result("test", None), lab.entries()))
}

/// Names the fields in which two records differ.
pub(super) fn differences(what: &str, skip: &[&str], ours: &impl Serialize, oracle: &impl Serialize) -> String {
    let (ours, oracle) = (serde_json::to_value(ours).unwrap(), serde_json::to_value(oracle).unwrap());
    let mut text = String::new();
    differ(what, skip, &ours, &oracle, &mut text);
    text
}

pub(super) fn differ(what: &str, skip: &[&str], a: &Json, b: &Json, text: &mut String) {
    match (a, b) {
        _ if a == b => {}
        (Json::Object(a), Json::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|n| !a.contains_key(*n))).filter(|n| !skip.contains(&n.as_str()))
            {
                let (a, b) = (a.get(name).unwrap_or(&Json::Null), b.get(name).unwrap_or(&Json::Null));
                differ(&format!("{what}.{name}"), skip, a, b, text);
            }
        }
        (Json::Array(a), Json::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| differ(&format!("{what}[{i}]"), skip, a, b, text));
        }
        _ => writeln!(text, "  {what}: {a}, expected {b}").unwrap(),
    }
}

pub(super) fn entry_differences(ours: &[EntryView], oracle: &[EntryView]) -> String {
    let mut text = String::new();
    for slot in ours.iter().chain(oracle).map(|e| e.slot).collect::<BTreeSet<_>>() {
        let of = |all: &[EntryView]| all.iter().find(|e| e.slot == slot).cloned();
        if of(ours) != of(oracle) {
            writeln!(text, "  entry {slot}: {:?}\n    expected {:?}", of(ours), of(oracle)).unwrap();
        }
    }
    text
}

/// The laboratory's results against those of the oracle, machine by machine; empty: no difference.
pub(super) fn compare(
    machines: &[Machine],
    result: &RunResult,
    entries: &[Vec<EntryView>],
    oracle: &[OracleResult],
) -> String {
    let mut text = String::new();
    for (((m, r), e), o) in machines.iter().zip(&result.machines).zip(entries).zip(oracle) {
        let mut found = differences("os", OS_SKIP, &r.counts.os, &o.os);
        found += &differences("lookups", &[], &result.workload.lookups, &o.lookups);
        found += &differences("references", &[], &result.workload.references, &o.references);
        let memory =
            [r.memory.resident_bytes, r.memory.reserved_bytes, r.memory.mapped_bytes, result.workload.touched_bytes];
        let pages = [o.peaks.busy, o.peaks.reserved, o.peaks.mapped].map(|n| n << (BASE_SHIFT + m.run.os.k));
        let peaks = [pages[0], pages[1], pages[2], o.touched << BASE_SHIFT];
        found += &differences("resident, reserved, mapped, touched", &[], &memory, &peaks);
        if m.hardware {
            found += &differences("tlb", &[], &r.counts.tlb, &o.tlb);
            found += &entry_differences(e, &o.entries);
        }
        if !found.is_empty() {
            writeln!(text, "{}\n{found}", m.text).unwrap();
        }
    }
    text
}

/// Runs everything on both sides; the error lists the differences. Returns the counts of the oracle's systems.
pub(super) fn check(seed: u64, stream: &Stream, machines: &[Machine]) -> Result<Vec<OsCounts>, String> {
    let batches = stream.batches();
    let items = stream.items();
    let options = |plain, limit| Options { plain, seed, limit, ..Options::default() };
    let both = |limit| {
        let fast = simulate(machines, &batches, options(false, limit)).map_err(|e| format!("with shortcuts: {e}"))?;
        let plain =
            simulate(machines, &batches, options(true, limit)).map_err(|e| format!("without shortcuts: {e}"))?;
        if fast != plain {
            let mut text = differences("result", &[], &fast.0, &plain.0);
            fast.1.iter().zip(&plain.1).for_each(|(f, p)| text += &entry_differences(f, p));
            return Err(format!("the shortcut changes the result, limit {limit:?}:\n{text}"));
        }
        Ok(fast)
    };
    let (result, entries) = both(None)?;
    let oracle: Vec<OracleResult> = machines.iter().map(|m| run(&m.run, &items)).collect();
    let text = compare(machines, &result, &entries, &oracle);
    if !text.is_empty() {
        return Err(text);
    }
    // T94-47: without promotion the faults depend on the program only, not on placement or memory.
    let plain =
        machines.iter().zip(&oracle).filter(|(m, _)| m.run.os.promote.is_empty() && m.run.os.two_size.is_none());
    let faults = |o: &OracleResult| [o.os.page_faults, o.os.protection_faults, o.os.cow_copies, o.os.dirty_pages];
    let faults: BTreeSet<_> = plain.map(|(m, o)| (m.run.os.k, faults(o))).collect();
    if faults.iter().zip(faults.iter().skip(1)).any(|(a, b)| a.0 == b.0) {
        return Err(format!("T94-47: page faults, protection faults, copies, dirty pages {faults:?}"));
    }
    if seed.is_multiple_of(3) {
        both(Some(result.workload.instructions / 2))?;
    }
    Ok(oracle.into_iter().map(|o| o.os).collect())
}

/// One system side by side with the oracle's, compared after every reference and event.
pub(super) fn check_system(seed: u64, stream: &Stream, machine: &Machine) -> Result<(), String> {
    // Ranges are kept beside the page table and change nothing in it (RMM15-1): every second system keeps them.
    let text = match seed % 4 {
        0 => format!("{},ranges=true", machine.text),
        2 => format!("{},ranges=true,range_cow=split,range_table=list,range_threshold=2", machine.text),
        _ => machine.text.clone(),
    };
    let spec = MachineSpec::parse(&text, seed).map_err(|e| e.to_string())?;
    let mut ours = Os::new(&spec.params)?;
    let mut oracle = PlainOs::new(machine.run.os.clone());
    let mut spaces = BTreeSet::new();
    let mut seen: BTreeSet<(Asid, Vpn)> = BTreeSet::new();
    let mut changes = Vec::new();
    for (i, (asid, item)) in stream.items().into_iter().enumerate() {
        spaces.insert(asid);
        match &item {
            Item::Access(access) => {
                let shift = ours.page_shift();
                let last = (access.addr.saturating_add(u64::from(access.size) - 1)) >> shift;
                for vpn in (access.addr >> shift..=last).map(Vpn) {
                    let got = ours.touch(asid, vpn, access.kind).map_err(|e| ours.explain(e))?.pte;
                    oracle.touch(asid, vpn, access.kind);
                    if Some(got) != oracle.pte(asid, vpn) {
                        return Err(format!("item {i}, {item:x?}: {got:?}, expected {:?}", oracle.pte(asid, vpn)));
                    }
                    seen.insert((asid, vpn));
                }
            }
            Item::Op(op) => {
                ours.apply(asid, op);
                oracle.apply(asid, op);
                if let Op::Fork { child } = op {
                    spaces.insert(*child);
                }
            }
        }
        ours.take_changes(&mut changes);
        let counts = differences("os", OS_SKIP, &ours.counts(), &oracle.counts());
        if !counts.is_empty() {
            return Err(format!("after item {i}, {item:x?}:\n{counts}"));
        }
        if matches!(item, Item::Op(_)) || i % 64 == 0 {
            ours.check();
            oracle.check();
            for &asid in &spaces {
                seen.extend(oracle.translations(asid).into_iter().map(|(vpn, _)| (asid, vpn)));
            }
            for &(asid, vpn) in &seen {
                let (got, expected) = (ours.pte(asid, vpn), oracle.pte(asid, vpn));
                if got != expected {
                    return Err(format!(
                        "after item {i}, {item:x?}: {asid:?} {vpn:x?} is {got:?}, expected {expected:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

// ------------------------------------------------------------------------------------------------------------ failure
