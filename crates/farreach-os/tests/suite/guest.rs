//! `placement = guest` against the walks of the oracle: a random kernel plays, and after every event each page that was
//! used translates as a walk of its tables does.

use farreach_oracle::dice::seeds;
use farreach_oracle::guest::kernel::format::{FORMATS, Format};
use farreach_oracle::guest::kernel::{Kernel, KernelConfig};
use farreach_oracle::guest::system::{Heard, System};
use farreach_oracle::guest::{Found, Mistake};
use farreach_os::{Change, Os, What};
use farreach_types::addr::{Asid, Vpn, VpnRange, owner};
use farreach_types::event::{Access, Guest, Op};
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Map, json};
use std::collections::BTreeMap;

const STEPS: usize = 120;

fn os(format: Format, stale: &str) -> Os {
    let page = format!("{}K", 1 << (format.granule - 10));
    let given = [("placement", json!("guest")), ("stale", json!(stale)), ("page_size", json!(page))];
    let given = Map::from_iter(given.map(|(key, value)| (key.to_owned(), value)));
    Os::new(&Params::resolve(&farreach_os::keys("guest"), &given).expect("right keys")).expect("right keys")
}

/// A found page as an entry of this system.
fn entry(found: Found, shift: u32) -> Pte {
    let rights = found.rights;
    let bit = |yes: bool, bit: u8| if yes { bit } else { 0 };
    let attr = Attr::READ | bit(rights.write, Attr::WRITE) | bit(rights.user_exec || rights.kernel_exec, Attr::EXEC);
    let pfn = farreach_types::addr::Pfn(found.frame >> (shift - 12));
    Pte { pfn, attr: Attr(attr), order: found.order.saturating_sub(shift - 12) as u8 }
}

/// Both, side by side.
struct Pair {
    os: Os,
    shift: u32,
    /// Pages that were used, and what they were before the last event.
    used: BTreeMap<(Asid, u64), Option<Pte>>,
    changes: Vec<Change>,
    events: u64,
    wrong: Option<String>,
}

impl Pair {
    fn new(format: Format) -> Pair {
        let (used, changes) = (BTreeMap::new(), Vec::new());
        Pair { os: os(format, "dropped"), shift: format.granule, used, changes, events: 0, wrong: None }
    }

    fn wants(&self, system: &System, asid: Asid, page: u64) -> Option<Pte> {
        system.translate(asid, page << (self.shift - 12)).map(|found| entry(found, self.shift))
    }

    fn hear(&mut self, system: &System, heard: Heard<'_>) {
        if self.wrong.is_some() {
            return;
        }
        let result = match heard {
            // The event that ends OZ-13 follows.
            Heard::Batch(_) | Heard::Unmapped(..) => Ok(()),
            Heard::Access(access) => self.access(system, access),
            Heard::Register(_, register, value) => self.event(system, &Op::Guest(Guest::Register { register, value })),
            Heard::Op(op) => self.event(system, op),
        };
        self.wrong = result.err();
    }

    fn access(&mut self, system: &System, access: Access) -> Result<(), String> {
        for vpn in VpnRange::of_bytes(access.addr, access.size.into(), self.shift).iter() {
            let asid = owner(system.space, vpn.0 << (self.shift - 12));
            let place = || format!("{:?} of page {:#x} of space {}", access.kind, vpn.0, asid.0);
            let touched = self
                .os
                .touch(asid, vpn, access.kind)
                .map_err(|why| format!("{}: {}", place(), self.os.explain(why)))?;
            let wanted = self.wants(system, asid, vpn.0);
            if Some(touched.pte) != wanted {
                return Err(format!("{}: the walk finds {wanted:x?}, the system {:x?}", place(), touched.pte));
            }
            self.used.insert((asid, vpn.0), wanted);
        }
        self.os.take_changes(&mut self.changes);
        Ok(())
    }

    fn event(&mut self, system: &System, op: &Op) -> Result<(), String> {
        self.os.apply(system.space, op);
        self.events += 1;
        if let Some(why) = self.os.refusal() {
            return Err(format!("refused after {op:x?}: {why}"));
        }
        self.os.check();
        self.os.take_changes(&mut self.changes);
        for (&(asid, page), before) in &mut self.used {
            let now = system.translate(asid, page << (self.shift - 12)).map(|found| entry(found, self.shift));
            let has = self.os.pte(asid, Vpn(page));
            let told = |whats: &[What]| {
                self.changes.iter().any(|c| c.asid == asid && c.pages.contains(Vpn(page)) && whats.contains(&c.what))
            };
            let place = || format!("page {page:#x} of space {} after {op:x?}", asid.0);
            // A page that came in again is found at its next use.
            if has.is_some() && has != now {
                return Err(format!("{}: the walk finds {now:x?}, the system has {has:x?}", place()));
            }
            let same = |one: Pte, other: Pte| (one.pfn, one.attr) == (other.pfn, other.attr);
            if let Some(was) = *before {
                let stays = now.is_some_and(|is| same(was, is));
                if stays == told(&[What::Stale, What::Gone]) {
                    let told = if stays { "it was dropped" } else { "no change says so" };
                    return Err(format!("{}: it was {was:x?}, is {now:x?}, and {told}", place()));
                }
            }
            *before = has;
        }
        Ok(())
    }
}

fn config(seed: u64, late: bool) -> KernelConfig {
    let round = seed as usize / FORMATS.len();
    KernelConfig {
        format: FORMATS[seed as usize % FORMATS.len()],
        processors: [1, 3][round % 2],
        late,
        tags: (round / 2).is_multiple_of(2),
        local_kernel: round % 4 == 3,
        processes: [2, 5][round / 2 % 2],
    }
}

/// What differs first, if anything does, and after how many steps.
fn compare(seed: u64, late: bool, mistake: Option<Mistake>) -> Result<u64, String> {
    let config = config(seed, late);
    let (mut kernel, mut system) = (Kernel::new(config, seed), System::new(mistake));
    let mut pair = Pair::new(config.format);
    for step in 0..STEPS {
        for batch in kernel.play(1) {
            system.read(&batch, |system, heard| pair.hear(system, heard));
        }
        if let Some(wrong) = pair.wrong {
            return Err(format!("seed {seed}, late {late}, step {step}, event {} of {config:?}: {wrong}", pair.events));
        }
    }
    Ok(pair.events)
}

#[test]
fn pages_of_guests_are_what_walks_find() {
    let (mut events, mut wrong) = (0, Vec::new());
    for seed in seeds(52) {
        for late in [false, true] {
            match compare(seed, late, None) {
                Ok(more) => events += more,
                Err(why) => wrong.push(why),
            }
        }
    }
    println!("{}", wrong.join("\n"));
    assert!(wrong.is_empty(), "{} of 104 differ: {}", wrong.len(), wrong[0]);
    assert!(events > 10_000, "{events}");
}

/// Mistakes in a walk are found here, those of TLBs by their counts.
#[test]
fn mistakes_in_walks_are_found() {
    for mistake in [Mistake::DropsContiguous, Mistake::PatInAddress, Mistake::LeafRights] {
        assert!((0..52).any(|seed| compare(seed, false, Some(mistake)).is_err()), "{mistake:?}");
    }
}
