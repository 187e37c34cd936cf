//! Prices that were measured on this machine before. To measure takes half a minute, and what is measured depends on
//! the machine alone. So each value is kept in the user's cache: until the machine starts again, its setting of huge
//! pages is another, or a day has gone by.

use super::kernel::THP;
use super::loads::Loads;
use farreach_live::cache;
use farreach_live::tool::changed_by_others;
use farreach_types::{Context, Error, Result};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

const SCHEMA: &str = "farreach.prices/1";
/// Seconds after which a value is measured again.
const LONGEST: i64 = 24 * 60 * 60;
/// Numbers of pages that differ by no more than this part have one price.
const NEAR: f64 = 0.05;
/// A file of ours is smaller.
const MOST_BYTES: u64 = 1 << 20;
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Clone, Serialize, Deserialize, Default)]
struct Contents {
    schema: String,
    /// What all values hold for.
    machine: String,
    /// By what is measured, and number of pages.
    loads: BTreeMap<String, BTreeMap<usize, Measured<Loads>>>,
    /// By name.
    values: BTreeMap<String, Measured<Value>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Measured<T> {
    /// In seconds since 1970.
    at: i64,
    value: T,
}

/// See the module.
pub struct Kept {
    /// Without one nothing is kept.
    file: Option<PathBuf>,
    contents: Contents,
    now: i64,
    /// When the oldest of the values that were used was measured, if it was not measured now.
    oldest: Option<i64>,
    changed: bool,
}

/// The boot of the machine, and what of its settings decides.
fn machine() -> Option<String> {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let thp = read(&format!("/{THP}/enabled")).unwrap_or_default();
    Some(format!("boot {}, huge pages {thp}", read(BOOT).ok()?))
}

impl Kept {
    /// What was kept. `again`: measure all of it again.
    pub fn open(again: bool) -> Kept {
        let file = cache::place("prices").map(|folder| folder.join("measured.json"));
        Kept::at(file, machine(), Timestamp::now().as_second(), again)
    }

    fn at(file: Option<PathBuf>, machine: Option<String>, now: i64, again: bool) -> Kept {
        let file = file.filter(|_| machine.is_some());
        let machine = machine.unwrap_or_default();
        // What is not as it was written here, is measured again.
        let read = |file: &PathBuf| -> Option<Contents> {
            let folder = file.parent()?;
            if changed_by_others(folder).is_some() || fs::metadata(file).ok()?.len() > MOST_BYTES {
                return None;
            }
            serde_json::from_slice(&fs::read(file).ok()?).ok()
        };
        let as_it_is = |contents: &Contents| contents.schema == SCHEMA && contents.machine == machine;
        let mut contents = file.as_ref().filter(|_| !again).and_then(read).filter(as_it_is).unwrap_or_default();
        let fresh = |at: i64| (now - LONGEST..=now).contains(&at);
        contents.loads.values_mut().for_each(|loads| loads.retain(|_, measured| fresh(measured.at)));
        contents.values.retain(|_, measured| fresh(measured.at));
        let contents = Contents { schema: SCHEMA.into(), machine, ..contents };
        Kept { file, contents, now, oldest: None, changed: false }
    }

    /// When the oldest of the values that were used was measured; `None` if all were measured now.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.oldest.and_then(|at| Timestamp::from_second(at).ok())
    }

    fn used(&mut self, at: i64) {
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at))).filter(|_| at < self.now).or(self.oldest);
    }

    /// Prices of loads over this number of pages, or one near it, measured in this way.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn loads(&mut self, way: &str, pages: usize, measure: impl FnOnce() -> Result<Loads>) -> Result<Loads> {
        let distance = |at: usize| at.abs_diff(pages) as f64 / pages.max(1) as f64;
        let all = self.contents.loads.entry(way.into()).or_default();
        let nearest = all.iter().min_by(|a, b| distance(*a.0).total_cmp(&distance(*b.0)));
        if let Some((_, Measured { at, value })) = nearest.filter(|(near, _)| distance(**near) <= NEAR) {
            let (at, value) = (*at, value.clone());
            self.used(at);
            return Ok(value);
        }
        let value = measure()?;
        let all = self.contents.loads.entry(way.into()).or_default();
        all.insert(pages, Measured { at: self.now, value: value.clone() });
        self.changed = true;
        Ok(value)
    }

    /// The value of this name.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn value<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        measure: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let kept = self.contents.values.get(name).cloned();
        if let Some((at, value)) = kept.and_then(|kept| Some((kept.at, serde_json::from_value(kept.value).ok()?))) {
            self.used(at);
            return Ok(value);
        }
        let value = measure()?;
        let json = serde_json::to_value(&value).expect("prices are data");
        self.contents.values.insert(name.into(), Measured { at: self.now, value: json });
        self.changed = true;
        Ok(value)
    }

    /// Keeps what was measured.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&mut self) -> Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.changed) else { return Ok(()) };
        let folder = file.parent().expect("it has a name");
        cache::make(folder, "prices")?;
        let place = || file.display().to_string();
        // Under another name at first, so that it is there as a whole or not at all.
        let mut new = tempfile::NamedTempFile::new_in(folder).with_context(place)?;
        let text = serde_json::to_string_pretty(&self.contents).expect("prices are data");
        new.write_all(text.as_bytes()).with_context(place)?;
        new.persist(file).map_err(|error| Error::Io { file: place(), source: error.error })?;
        self.changed = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::Added;
    use super::*;
    use farreach_types::counts::Interval;

    fn loads(price: f64) -> Loads {
        let interval = Interval { low: price, high: 2.0 * price };
        let added = Added { all: interval, typical: interval };
        Loads { base: added, contiguous: added, load: interval }
    }

    fn never<T>() -> Result<T> {
        panic!("it is kept")
    }

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = || Some(folder.path().join("farreach").join("prices.json"));
        let at = |now: i64, machine: &str, again: bool| Kept::at(file(), Some(machine.into()), now, again);
        let mut kept = at(1_000, "boot 1", false);
        assert_eq!(kept.loads("way", 1_000, || Ok(loads(7.5))).unwrap().load.low, 7.5);
        assert_eq!(kept.value("some", || Ok(Some(true))).unwrap(), Some(true));
        assert_eq!(kept.value("none", || Ok(None::<bool>)).unwrap(), None);
        assert_eq!(kept.oldest(), None, "all is new");
        kept.save().unwrap();

        let mut kept = at(1_600, "boot 1", false);
        for pages in [960, 1_000, 1_050] {
            assert_eq!(kept.loads("way", pages, never).unwrap().base.all.high, 15.0);
        }
        assert_eq!(
            (kept.value("some", never).unwrap(), kept.value("none", never).unwrap()),
            (Some(true), None::<bool>)
        );
        assert_eq!(kept.oldest().unwrap().as_second(), 1_000);
        assert_eq!(kept.loads("other", 1_000, || Ok(loads(3.0))).unwrap().load.low, 3.0, "another way");
        assert_eq!(kept.loads("way", 1_060, || Ok(loads(9.0))).unwrap().load.low, 9.0, "too far");
        // Of a value of another type nothing is known.
        assert_eq!(kept.value("some", || Ok(5.5)).unwrap(), 5.5);
        kept.save().unwrap();
        assert_eq!(at(1_601, "boot 1", false).loads("way", 1_059, never).unwrap().load.low, 9.0);

        let measures = |mut kept: Kept| kept.loads("way", 1_000, || Ok(loads(1.0))).unwrap().load.low == 1.0;
        assert!(measures(at(1_601, "boot 2", false)) && measures(at(1_601, "boot 1", true)));
        assert!(measures(at(1_000 + LONGEST + 1, "boot 1", false)), "a day has gone by");
        assert!(measures(at(999, "boot 1", false)), "the clock was set back");
        assert!(measures(Kept::at(None, Some("boot 1".into()), 1_601, false)));
    }

    #[test]
    fn what_is_damaged_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prices.json");
        for text in ["", "{", "[]", "{\"schema\": 3}", "{\"schema\": \"farreach.prices/1\", \"machine\": \"m\"}"] {
            fs::write(&file, text).unwrap();
            let mut kept = Kept::at(Some(file.clone()), Some("m".into()), 5, false);
            assert_eq!(kept.loads("way", 10, || Ok(loads(1.0))).unwrap().load.low, 1.0, "{text}");
            kept.save().unwrap();
            assert_eq!(
                Kept::at(Some(file.clone()), Some("m".into()), 6, false).loads("way", 10, never).unwrap().load.low,
                1.0
            );
        }
    }

    #[test]
    fn a_folder_of_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let mut kept = Kept::at(Some(folder.path().join("prices.json")), Some("m".into()), 5, false);
        kept.value("some", || Ok(1)).unwrap();
        let error = kept.save().unwrap_err().to_string();
        assert!(error.contains("others can write into"), "{error}");
        assert!(!folder.path().join("prices.json").exists());
    }
}
