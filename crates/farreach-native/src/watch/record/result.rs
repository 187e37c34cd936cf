//! The result of what was seen.

use super::{HUGE, LARGE, PAGE, Record, pages, present, times};
use crate::snapshot::Region;
use crate::this;
use farreach_cost::watch::{Facts, Known, counted, entries, fullness, median, recommend, working_sets};
use farreach_live::own_cpu;
use farreach_live::system::System;
use farreach_live::watch::{Method, Watcher};
use farreach_types::counts::{
    EntryBounds, HugePages, MappingUse, MissingMethod, Reach, WATCH_SCHEMA, WatchCost, WatchMethod, WatchResult,
};
use procfs::process::Process;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

impl Record<'_> {
    /// The result.
    pub fn result(
        self,
        source: String,
        ended: &str,
        missing: Vec<MissingMethod>,
        watcher: &dyn Watcher,
    ) -> WatchResult {
        let cost = self.cost(watcher);
        let present = present(&self.regions);
        let whole = self.whole.as_ref().filter(|_| !self.counted.is_empty());
        let sets = working_sets(&self.counted, whole.map(|used| counted(&present, Known::Pages(used))), &present);
        let anonymous: Vec<&Region> = self.regions.iter().filter(|region| region.is_anonymous()).collect();
        let ranges: Vec<Range<u64>> = anonymous.iter().map(|region| region.pages.clone()).collect();
        let huge_now = anonymous.iter().map(|region| region.anonymous_huge_pages).sum::<u64>() * PAGE;
        let (blocks, huge) = fullness(&present, whole, &ranges, huge_now);
        let huge = self.settings(huge);
        let entries_here = data_entries();
        let reach = [(PAGE, 0), (HUGE, LARGE)].map(|(page_bytes, i)| Reach {
            page_bytes,
            needed: entries(&sets, page_bytes),
            needed_for_present: sets[i].present_bytes / page_bytes,
            entries: entries_here(page_bytes),
        });
        let possible = |i: usize| self.possible(reach[i].needed, reach[i].needed_for_present);
        let mut recommendation = recommend(&Facts {
            small: possible(0),
            large: possible(1),
            small_entries: reach[0].entries,
            large_entries: reach[1].entries,
            huge: huge.clone(),
            present_bytes: present.len() * PAGE,
        });
        recommendation.next = "farreach advise -- COMMAND".into();
        let names: Vec<(String, Range<u64>)> =
            self.regions.iter().map(|region| (region.name.clone(), region.pages.clone())).collect();
        let lengths = self.intervals.iter().map(|interval| (interval.length * 1e6) as u64);
        WatchResult {
            schema: WATCH_SCHEMA.to_owned(),
            source,
            method: self.about(missing, watcher),
            seconds: self.intervals.last().map_or(0.0, |last| last.seconds),
            interval_seconds: median(lengths).unwrap_or(0) as f64 / 1e6,
            ended: ended.to_owned(),
            present_bytes: present.len() * PAGE,
            anonymous_bytes: anonymous.iter().map(|region| pages(region)).sum::<u64>() * PAGE,
            working_sets: sets,
            blocks,
            huge,
            mappings: self.mappings(),
            reach: reach.to_vec(),
            heat: self.heater.heat(&names),
            intervals: self.intervals,
            cost,
            recommendation,
        }
    }

    /// Entries that may be needed: where loads are not seen, up to those for everything.
    fn possible(&self, seen: Option<EntryBounds>, for_present: u64) -> Option<EntryBounds> {
        let high = |seen: EntryBounds| if self.method == Method::SoftDirty { for_present } else { seen.high };
        seen.map(|seen| EntryBounds { low: seen.low, high: high(seen).max(seen.low) })
    }

    fn about(&self, missing: Vec<MissingMethod>, watcher: &dyn Watcher) -> WatchMethod {
        let (resolution, about) = match self.method {
            Method::Damon if self.sampled.is_some() => {
                ("sample", "used bits of pages, by DAMON, in 2 MB blocks drawn at random")
            }
            Method::Damon => ("pages", "used bits of pages, by DAMON"),
            Method::IdlePages => ("pages", "used bits of pages, by the bitmap of idle pages"),
            Method::ClearRefs => ("mappings", "used bits, of which clear_refs and smaps tell how many by mapping"),
            Method::SoftDirty => ("pages", "soft-dirty bits of pages: what was stored into"),
            Method::Resident => ("nothing", "what is present; not what is used"),
        };
        WatchMethod {
            name: self.method.name().to_owned(),
            resolution: resolution.to_owned(),
            about: about.to_owned(),
            loads: !matches!(self.method, Method::SoftDirty | Method::Resident),
            flushed: watcher.flushes(),
            sampled_blocks: self.sampled,
            missing,
        }
    }

    fn cost(&self, watcher: &dyn Watcher) -> WatchCost {
        let observer = (own_cpu() - self.cpu).as_secs_f64();
        // It began with the watch, so all of its time was for it.
        let thread = watcher.kernel_thread().and_then(|pid| times(&Process::new(pid).ok()?));
        let thread: f64 = thread.map_or(0.0, |times| times.iter().sum());
        let meanwhile = times(self.process).zip(self.own).map(|(now, then)| [now[0] - then[0], now[1] - then[1]]);
        let [user, system] = meanwhile.unwrap_or_default();
        let [longest, all] = watcher.waits();
        let paid = self.paid.as_secs_f64();
        WatchCost {
            observer_seconds: observer,
            kernel_thread_seconds: thread,
            percent_of_a_processor: 100.0 * (observer + thread) / self.began.elapsed().as_secs_f64().max(1e-9),
            longest_wait_seconds: longest.as_secs_f64(),
            waits_seconds: all.as_secs_f64(),
            used_page_seconds: self.price.as_secs_f64(),
            process_seconds: paid,
            process_percent: 100.0 * paid / (user + system - paid).max(paid).max(1e-9),
            process_user_seconds: user,
            process_system_seconds: system,
        }
    }

    /// Adds what the kernel and the process have set.
    fn settings(&self, huge: HugePages) -> HugePages {
        let advised = |wanted: bool| {
            let these = self.regions.iter().filter(|region| region.advice == Some(wanted));
            these.map(pages).sum::<u64>() * PAGE
        };
        HugePages {
            mode: System::read(Path::new("/")).thp.and_then(|thp| thp.enabled),
            disabled: self.process.status().ok().and_then(|status| status.thp_enabled).map(|enabled| !enabled),
            advised_bytes: advised(true),
            refused_bytes: advised(false),
            ..huge
        }
    }

    fn mappings(&self) -> Vec<MappingUse> {
        let mut rows: HashMap<&str, MappingUse> = HashMap::new();
        for region in self.regions.iter().filter(|region| !region.runs.is_empty()) {
            let row = rows.entry(&region.name).or_insert_with(|| {
                // A name that was not there in some interval had nothing in use then.
                let used = self.mappings.get(&region.name);
                let missed = used.map_or(0, |used| self.counted.len().saturating_sub(used.len()));
                let all = || used.into_iter().flatten().copied().chain(std::iter::repeat_n(0, missed));
                MappingUse {
                    mapping: region.name.clone(),
                    median_bytes: median(all()).map(|pages| pages * PAGE),
                    most_bytes: all().max().map(|pages| pages * PAGE),
                    ..MappingUse::default()
                }
            });
            row.present_bytes += pages(region) * PAGE;
            row.huge_bytes += region.huge_pages * PAGE;
        }
        let mut rows: Vec<MappingUse> = rows.into_values().collect();
        rows.sort_by(|a, b| b.present_bytes.cmp(&a.present_bytes).then_with(|| a.mapping.cmp(&b.mapping)));
        rows
    }
}

/// The entries of this processor for data in pages of a size: those of the level that has most, as in the machine
/// `this`.
fn data_entries() -> impl Fn(u64) -> Option<u64> {
    let arrays = this::data_arrays();
    move |size| {
        let of = |level: &Vec<(Vec<u64>, u64)>| {
            level.iter().filter(|(sizes, _)| sizes.contains(&size)).map(|(_, entries)| entries).sum::<u64>()
        };
        arrays.iter().map(of).max().filter(|entries| *entries > 0)
    }
}
