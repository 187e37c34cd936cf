//! Victima: lines of the second-level cache that hold translations, eight of a line of the page table (VIC).
//!
//! Such a line is a line of a part in [`Levels`]. Its number there is made of its slot here and
//! of its set; what it translates is kept here.

mod costly;
mod lines;

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, only_native, shown};
use crate::cache::levels::LINE_SHIFT;
use crate::cache::{At, Levels, Purpose};
use crate::tlb::contract::EntryView;
use crate::tlb::keys::PROCESS_IDS;
use crate::tlb::parts::hierarchy::nodes::{Entry, RADIX};
use crate::tlb::parts::hierarchy::walk::{by_caches, leaf_level};
use crate::tlb::parts::tables::TABLE;
use costly::{Costly, VIC_COST_AT, VIC_FREQUENCY_AT};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Translation;
use lines::{Lines, Name};

/// VIC-2.
pub const VIC_WALK: Key = Key {
    name: "vic_walk",
    default: "none",
    allowed: Allowed::OneOf(&["none", "raced"]),
    about: "what a walk has read when a TLB line in the cache answers: none: nothing; raced: its first node, in the \
            background",
};
/// VIC-5.
pub const VIC_PRIORITY: Key = Key {
    name: "vic_priority",
    default: "never",
    allowed: Allowed::OneOf(&["never", "always"]),
    about: "whether TLB lines enter the cache as if used just now (with srrip), and are passed over once as victims",
};

const HITS: usize = 0;
const INSERTED: usize = 1;
const EVICTED: usize = 2;
const INVALIDATED: usize = 3;
const RESIDENT: usize = 4;
const BACKGROUND_WALKS: usize = 5;

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "victima",
    about: "lines of the second-level cache hold translations (Victima); needs walk_cost = caches",
    keys: &[&VIC_FREQUENCY_AT, &VIC_COST_AT, &VIC_WALK, &VIC_PRIORITY],
    counters: &[
        Counter::new("hits", "misses that a TLB line answered"),
        Counter::new("inserted", "TLB lines that entered the cache"),
        Counter::new("evicted", "TLB lines that the cache evicted"),
        Counter::new("invalidated", "TLB lines that changes emptied"),
        Counter::new("resident", "TLB lines in the cache now"),
        Counter::new("background_walks", "walks for entries that the second level evicted"),
    ],
    answers: Some("hits"),
    laws: &[Law {
        name: "VIC-6",
        sides: |part, _| {
            let of = |name| part.counters.get(name);
            (of("inserted"), of("evicted") + of("invalidated") + of("resident"))
        },
    }],
    check,
    build: |params, _| Ok(Box::new(Victima::new(params)?)),
    ..ListedAddition::NEW
};

fn check(params: &Params) -> Result<(), String> {
    only_native(params)?;
    if !by_caches(params) {
        return Err(format!(
            "{} is not allowed with walk_cost = fixed: victima keeps translations in the second-level cache (VIC-1); \
             walk_cost must be caches",
            shown(params)
        ));
    }
    if params.text(TABLE.name) != TABLE.default {
        return Err(format!(
            "{} is not allowed with {} = {}: TLB lines are made of the lines of a radix tree",
            shown(params),
            TABLE.name,
            params.text(TABLE.name)
        ));
    }
    Ok(())
}

/// See the module.
struct Victima {
    lines: Lines,
    costly: Costly,
    raced: bool,
    process_ids: bool,
}

impl Victima {
    fn new(params: &Params) -> Result<Victima, String> {
        Ok(Victima {
            lines: Lines::new(Levels::second_lines(params)?),
            costly: Costly::new(params),
            raced: params.text(VIC_WALK.name) == "raced",
            process_ids: params.flag(PROCESS_IDS.name),
        })
    }

    /// Forgets the lines that the cache evicted.
    fn forget_lost(&mut self, account: &mut Account) {
        while let Some(number) = account.port.caches().lost_part() {
            self.lines.forget(number);
            *account.own().at(EVICTED) += 1;
            *account.own().at(RESIDENT) -= 1;
        }
    }

    /// Puts the line of a page's entry, which a walk has just read, into the cache, with all that is valid in it
    /// (VIC-3).
    fn insert(&mut self, name: Name, context: &mut Context) {
        let pages = name.translations(context.table);
        debug_assert!(pages.iter().any(Option::is_some), "{name:?} is a line without a valid entry");
        if let Some(number) = self.lines.number(name) {
            // The line stays, with what the walk found in memory.
            self.lines.renew(name, pages);
            context.port.caches().find_part(number);
            return;
        }
        let entry = Entry::on_the_way(name.asid, name.first(), name.level);
        let turned = context.port.place(entry).address >> LINE_SHIFT;
        let number = self.lines.add(name, pages);
        context.port.caches().insert_part(number, turned);
        *context.own().at(INSERTED) += 1;
        *context.own().at(RESIDENT) += 1;
        self.forget_lost(&mut context.account());
    }

    /// Removes the lines that this says from the cache.
    fn drop_lines(&mut self, slots: &[u32], account: &mut Account) {
        for &slot in slots {
            let number = self.lines.number_of(slot);
            account.port.caches().remove_part(number);
            self.lines.forget(number);
        }
        *account.own().at(INVALIDATED) += slots.len() as u64;
        *account.own().at(RESIDENT) -= slots.len() as u64;
    }
}

impl Addition for Victima {
    /// VIC-2: both sizes are looked for at once.
    fn missed(&mut self, miss: &Miss, context: &mut Context) -> Option<Translation> {
        self.forget_lost(&mut context.account());
        let (asid, vpn) = (miss.at.asid, miss.at.vpn);
        let (number, found) = self.lines.find(asid, vpn)?;
        let is_there = context.port.caches().find_part(number);
        debug_assert!(is_there, "VIC-1: the cache has lost the line of {asid:?} {vpn:?} unnoticed");
        *context.own().at(HITS) += 1;
        let memory = context.memory();
        memory.made.steps += 1;
        memory.made.references += 1;
        *crate::cache::answered_at(&mut memory.answered, At::L2) += 1;
        if self.raced {
            let address = context.walker.first_read(asid, vpn, miss.pte, context.port).address;
            context.step(Purpose::Background, &[address]);
        }
        Some(found)
    }

    /// VIC-3, VIC-4.
    fn filled(&mut self, miss: &Miss, by: By, victim: Option<Victim>, context: &mut Context) {
        self.forget_lost(&mut context.account());
        let level = leaf_level(miss.pte.order, RADIX);
        if by == By::Walk && level < 2 {
            let name = Name::of(miss.at.asid, miss.at.vpn, level);
            let costly =
                self.costly.walked((miss.at.asid, miss.at.vpn, level), context.port.last_walk().reached_memory());
            if costly {
                self.insert(name, context);
            }
        }
        let Some(Victim { asid, vpn, .. }) = victim else { return };
        let Some(pte) = context.table.pte(asid, vpn) else { return };
        let level = leaf_level(pte.order, RADIX);
        let name = Name::of(asid, vpn, level);
        if level < 2 && self.costly.is((asid, vpn, level)) && self.lines.number(name).is_none() {
            *context.own().at(BACKGROUND_WALKS) += 1;
            context.walk_ahead(asid, vpn);
            self.forget_lost(&mut context.account());
            self.insert(name, context);
        }
    }

    /// VIC-6.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, _: bool, account: &mut Account) -> u64 {
        self.forget_lost(account);
        self.costly.changed(asid, pages);
        let emptied = self.lines.drop_pages(asid, pages);
        self.drop_lines(&emptied, account);
        0
    }

    fn drop_space(&mut self, asid: Asid, account: &mut Account) -> u64 {
        self.forget_lost(account);
        self.costly.gone(asid);
        let theirs = self.lines.of(|of| of == asid);
        self.drop_lines(&theirs, account);
        0
    }

    fn switch(&mut self, to: Asid, account: &mut Account) -> u64 {
        self.forget_lost(account);
        if !self.process_ids {
            let others = self.lines.of(|of| of != to);
            self.drop_lines(&others, account);
        }
        0
    }

    fn lost_lines(&mut self, account: &mut Account) {
        self.forget_lost(account);
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.lines.find(asid, vpn).map(|(_, found)| found)
    }

    fn views(&self, before: usize, into: &mut Vec<EntryView>) {
        self.lines.views(before, into);
    }

    /// A translation each.
    fn entries(&self) -> usize {
        self.lines.most() * lines::WIDTH
    }
}
