//! Page sizes that the kernel of this machine can provide, and the pages it did provide.

use farreach_live::tries::Failure;
use std::fs;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;

/// A page size that the kernel of this machine may be able to provide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageSize {
    /// How large it is.
    pub bytes: u64,
}

/// Reads a size such as `64k`.
///
/// # Errors
/// It is none of 4 KB, 2 MB, and those of multi-size THP between them; the message says so.
pub fn page_size(text: &str) -> Result<PageSize, String> {
    let bytes = text.parse::<farreach_types::addr::Bytes>().map(|size| size.0).unwrap_or(0);
    match bytes.is_power_of_two() && (SMALL..=LARGE).contains(&bytes) && bytes != 8 << 10 {
        true => Ok(PageSize { bytes }),
        false => Err("sizes are 4k, 2m and those of multi-size THP between them, from 16k on".to_owned()),
    }
}

/// The word in brackets of a setting.
fn chosen(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

impl PageSize {
    /// Base pages.
    pub const BASE: PageSize = PageSize { bytes: SMALL };

    /// The usual notation.
    pub fn name(self) -> String {
        farreach_types::addr::Bytes(self.bytes).to_string()
    }

    /// A machine of this preset with an operating system that provides such pages.
    pub fn machine(self, preset: &str) -> String {
        match self.bytes {
            SMALL => format!("{preset}:placement=demand"),
            bytes => format!("{preset}:placement=thp,khugepaged=0,thp_size={bytes}"),
        }
    }

    fn file(self, name: &str) -> String {
        format!("{THP}/hugepages-{}kB/{name}", self.bytes >> 10)
    }

    /// Its setting; `None` if this kernel does not know the size. Before Linux 6.8 there was one for 2 MB alone.
    fn setting(self) -> Option<String> {
        let all = chosen(&format!("{THP}/enabled"))?;
        match chosen(&self.file("enabled")) {
            Some(word) if word == "inherit" => Some(all),
            None if self.bytes == LARGE => Some(all),
            own => own,
        }
    }

    /// Whether a program gets such pages by madvise.
    fn is_given(self) -> bool {
        self.setting().is_some_and(|word| ["always", "madvise"].contains(&word.as_str()))
    }

    /// Why this machine's kernel does not provide such pages on request. The setting is not changed, since it affects
    /// all processes.
    pub fn missing(self) -> Option<Failure> {
        if self == PageSize::BASE || self.is_given() {
            return None;
        }
        if chosen(&format!("{THP}/enabled")).is_none() {
            return Some(Failure::new(format!("this kernel has no transparent huge pages ({THP} is not there)")));
        }
        let own = self.file("enabled");
        Some(match self.setting() {
            None => Failure::new(format!(
                "this kernel has no multi-size THP of {}: {own} is not there (Linux 6.8 has it)",
                self.name()
            )),
            Some(word) => {
                let path = if fs::exists(&own).unwrap_or(false) { own } else { format!("{THP}/enabled") };
                Failure::new(format!("this kernel has them switched off ({word})"))
                    .or_turn_on(format!("echo madvise | sudo tee {path}"))
            }
        })
    }

    /// The next larger size that the kernel would use instead: it takes the largest that fits.
    pub fn larger(self) -> Option<u64> {
        let sizes =
            std::iter::successors(Some(self.bytes * 2), |bytes| Some(bytes * 2)).take_while(|bytes| *bytes <= LARGE);
        sizes.map(|bytes| PageSize { bytes }).find(|size| size.is_given()).map(|size| size.bytes)
    }

    /// Bytes in such pages now: those of this process for 2 MB, those of all processes for smaller sizes, for which the
    /// kernel has no count per process.
    pub fn held(self) -> u64 {
        let number = |text: &str| text.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
        match self.bytes {
            SMALL => 0,
            LARGE => {
                let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
                text.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).map_or(0, number) << 10
            }
            bytes => number(&fs::read_to_string(self.file("stats/nr_anon")).unwrap_or_default()) * bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(["4k", "64K", "2m"].map(|text| page_size(text).unwrap().bytes), [4096, 65536, 2 << 20]);
        for bad in ["8k", "1g", "3k", "", "x"] {
            assert!(page_size(bad).unwrap_err().contains("4k, 2m"), "{bad}");
        }
        assert_eq!(page_size("64k").unwrap().machine("a/b"), "a/b:placement=thp,khugepaged=0,thp_size=65536");
    }

    #[test]
    fn what_the_base_size_is() {
        assert_eq!((PageSize::BASE.missing(), PageSize::BASE.held()), (None, 0));
        assert_eq!(PageSize { bytes: LARGE }.larger(), None, "there is none");
    }
}
