//! The machines that come with the laboratory, and the groups they are asked for in.

use farreach_types::suggest::did_you_mean;
use std::borrow::Cow;

/// The end of the name of a variant: a processor of today with transparent huge pages, as Linux has them when they are
/// always on.
const THP: &str = "-thp";
/// The group whose presets have that variant.
const TODAY: &str = "today";

/// A machine that comes with the laboratory.
pub struct Preset {
    /// Name, `paper/machine`.
    pub name: &'static str,
    /// Its TOML.
    pub toml: &'static str,
}

impl Preset {
    /// The part before the slash, usually a paper.
    fn group(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }

    /// The TOML of a preset, or of its variant with transparent huge pages, `today/zen3-thp`.
    pub fn toml_of(name: &str) -> Option<Cow<'static, str>> {
        let find = |name: &str| PRESETS.iter().find(|p| p.name == name);
        if let Some(preset) = find(name) {
            return Some(preset.toml.into());
        }
        let preset = find(name.strip_suffix(THP)?).filter(|preset| preset.group() == TODAY)?;
        let toml = preset.toml.replacen("\"\nkind", ", THP\"\nkind", 1);
        Some(toml.replacen("placement = \"demand\"", "placement = \"thp\"", 1).into())
    }

    /// The groups that presets can be asked for in; the last is all of them, but for those by name alone.
    pub fn groups() -> Vec<&'static str> {
        let mut groups: Vec<_> = PRESETS.iter().map(Preset::group).collect();
        groups.dedup();
        groups.push(ALL);
        groups
    }

    /// The presets of a group, or of `all`; none if there is no such group.
    pub fn all_of(group: &str) -> Vec<&'static Preset> {
        PRESETS.iter().filter(|p| group == ALL || group == p.group()).collect()
    }

    /// The machines that `NAME[:key=value,...]` names: the presets of a group, each with the overrides, or itself.
    pub fn named(text: &str) -> Vec<String> {
        let (base, overrides) = text.split_at(text.find(':').unwrap_or(text.len()));
        let (group, variant) = if base.strip_suffix(THP) == Some(TODAY) { (TODAY, THP) } else { (base, "") };
        match &Preset::all_of(group)[..] {
            [] => vec![text.to_owned()],
            group => {
                let group = group.iter().filter(|p| !BY_NAME_ALONE.contains(&p.name));
                group.map(|p| format!("{}{variant}{overrides}", p.name)).collect()
            }
        }
    }
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset { name: $name, toml: include_str!(concat!("../../../machines/", $name, ".toml")) }),*]
    };
}

/// All presets. A new one is one file in `machines/` and one word here.
pub const PRESETS: &[Preset] = presets![
    "t94/single",
    "t94/superpage",
    "t94/complete",
    "t94/partial",
    "t94/set-associative",
    "t94/integrated",
    "ps/4k",
    "ps/8k",
    "ps/16k",
    "ps/32k",
    "ps/64k",
    "ps/128k",
    "ps/256k",
    "ps/512k",
    "ps/1m",
    "ps/2m",
    "ps/two-size",
    "ps/itanium",
    "ds13/4k",
    "ds13/2m",
    "ds13/1g",
    "ds13/segment",
    "ds13/kernel",
    "rmm15/4k",
    "rmm15/thp",
    "rmm15/clustered",
    "rmm15/colt",
    "rmm15/colt-fa",
    "rmm15/range",
    "today/zen1",
    "today/zen2",
    "today/zen3",
    "today/zen4",
    "today/zen5",
    "today/skylake",
    "today/ice-lake",
    "today/golden-cove",
    "today/granite-rapids",
    "today/gracemont",
    "today/cortex-a76",
    "today/neoverse-n1",
    "today/neoverse-v1",
    "today/neoverse-v2",
    "today/neoverse-v3",
    "sv97/softvm",
    "sv97/mips",
    "sv97/spur",
    "sv97/vmp",
    "sv97/x86",
    "s04/skewed",
    "since/base",
    "since/srrip",
    "since/chirp",
    "since/itp",
    "since/itp-xptp",
    "since/opt",
    "since/sp",
    "since/asp",
    "since/mp",
    "since/dp",
    "since/rp",
    "since/h2p",
    "since/masp",
    "since/stp",
    "since/atp",
    "since/sbfp-only",
    "since/atp-sbfp",
    "since/hashed",
    "since/htab",
    "since/clustered-table",
    "since/cuckoo",
    "since/flat",
    "since/pt-priority",
    "since/dmt",
    "since/learned",
    "since/pom",
    "since/victima",
    "since/spectlb",
    "since/spot",
    "since/dppred",
    "since/asap",
    "since/me-hpt",
    "since/utc",
    "since/uptc",
    "since/sptc",
    "since/tpc",
    "since/shadow",
    "since/agile",
    "since/nested-cuckoo",
    "since/nested-hashed",
    "since/nested-flat",
    "since/nested-dmt",
    "since/colt-all",
    "since/clustered",
    "since/mix",
    "since/anchor",
    "since/skewed",
    "since/mosaic",
    "since/tps",
    "since/perforated",
    "since/utopia",
    "since/private",
    "since/sll",
    "since/midgard",
    "since-os/navarro",
    "since-os/freebsd",
    "since-os/quicksilver",
    "since-os/tps",
    "since-os/linux",
    "since-os/ingens",
    "since-os/hawkeye",
    "since-os/solaris",
    "since-os/windows",
    "since-os/trident",
    "since-os/cap",
    "since-os/ranger",
    "since-os/carrefour",
    "since-os/mosaic",
    "since-os/pcid",
    "since-os/tlbi",
    "since-os/invlpgb",
    "since-os/latr",
    "since-os/numa",
    "since-os/mitosis",
    "since-os/numapte",
];

/// The group of all presets.
const ALL: &str = "all";

/// Presets that groups leave out: they read the references twice (REP-1), which programs that run make once; or they
/// are of use in recorded systems alone (DS13-43).
const BY_NAME_ALONE: [&str; 2] = ["since/opt", "ds13/kernel"];

/// The error for an unknown machine: the names most like it, and what is allowed.
pub(super) fn unknown(name: &str) -> String {
    let meant = did_you_mean(name, PRESETS.iter().map(|p| p.name));
    format!(
        "no preset '{name}'{meant}{} `farreach machines` lists all presets; a group of them ({}) or a FILE.toml is \
         allowed too",
        if meant.is_empty() { ";" } else { "" },
        Preset::groups().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_all_that_it_names_once() {
        assert_eq!(Preset::named("ds13:levels=5"), ["4k", "2m", "1g", "segment"].map(|m| format!("ds13/{m}:levels=5")));
        let all = PRESETS.iter().map(|p| p.name).filter(|name| !BY_NAME_ALONE.contains(name));
        assert_eq!(Preset::named("all"), all.collect::<Vec<_>>());
        assert_eq!(Preset::named("since/opt"), ["since/opt"]);
        for one in ["t94/single", "t94/single:entries=32", "ds1", "ds13/", "mine.toml", ""] {
            assert_eq!(Preset::named(one), [one]);
        }
    }

    #[test]
    fn processors_of_today_with_huge_pages() {
        for preset in Preset::all_of(TODAY) {
            let [base, thp] = ["", THP].map(|end| {
                let spec = crate::MachineSpec::parse(&format!("{}{end}", preset.name), 0).unwrap();
                (spec.about.clone(), spec.params)
            });
            assert_eq!(thp.0, format!("{}, THP", base.0));
            assert_eq!((base.1.text("placement"), thp.1.text("placement")), ("demand", "thp"), "{}", preset.name);
            assert_eq!(base.1.texts("l2"), thp.1.texts("l2"));
        }
        let all = Preset::named("today-thp:seed=1");
        assert_eq!((all.len(), &*all[0]), (Preset::all_of(TODAY).len(), "today/zen1-thp:seed=1"));
        assert!(Preset::toml_of("rmm15/4k-thp").is_none() && Preset::toml_of("today/zen-thp").is_none());
    }

    #[test]
    fn presets_of_a_group_stand_together() {
        let mut groups = Preset::groups();
        let count = groups.len();
        groups.sort();
        groups.dedup();
        assert_eq!(groups.len(), count, "a group stands in two places, or is called {ALL}");
        assert!(PRESETS.iter().all(|p| p.name.contains('/')));
    }

    #[test]
    fn every_preset_can_be_built() {
        for preset in PRESETS {
            let spec = crate::MachineSpec::parse(preset.name, 0).unwrap_or_else(|why| panic!("{}: {why}", preset.name));
            if let Some(design) = spec.hardware.tlb() {
                (design.build)(&spec.params).map(|_| ()).unwrap_or_else(|why| panic!("{}: {why}", preset.name));
            }
        }
    }
}
