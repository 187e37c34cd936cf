//! Machine descriptions: presets, TOML files, overrides, and their resolved keys.

use super::description::{self, Description};
use super::hardware::{Hardware, KIND, SPLIT};
use super::presets::{self, Preset};
use super::reference::reference;
use farreach_hw::system::keys::TABLE;
use farreach_hw::system::tables::TABLES;
use farreach_hw::tlb::cores::CORES;
use farreach_hw::tlb::keys::PROCESS_IDS;
use farreach_hw::tlb::{CHOICES, DESIGNS, Design, additions, host, range, segment, walk};
use farreach_os as os;
use farreach_types::Error;
use farreach_types::params::{self, Allowed, Key, Params};
use farreach_types::suggest::did_you_mean;
use serde_json::{Map, Value as Json};

/// The placement whose page tables are those of a recorded system.
const GUEST_PLACEMENT: &str = "guest";

/// Extension of files that describe machines.
const FILE: &str = ".toml";

/// The names that a key for a part accepts, and those most like the given one.
fn one_of(given: &str, names: &[&str]) -> String {
    format!("one of {}{}", names.join(", "), did_you_mean(given, names.iter().copied()))
}

/// The command that explains all keys of a machine; or their names, if its design is not known to the command.
fn all_keys(refusal: &str, hardware: Hardware, choices: &str, keys: &[&Key]) -> String {
    let joint = if refusal.ends_with('?') { "" } else { ";" };
    let kind = hardware.kind();
    if !MachineSpec::registered(KIND.name).contains(&kind) {
        let mut names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        return format!("{joint} this machine has: {}", names.join(", "));
    }
    let choices = if choices.is_empty() { String::new() } else { format!(":{choices}") };
    format!("{joint} `farreach machines --keys {kind}{choices}` explains all that this machine has")
}

/// The refusal of the first key that a TLB does not have, if it would with another choice of its parts.
fn comes_with(hardware: Hardware, keys: &[&Key], given: &Map<String, Json>) -> Option<String> {
    let Hardware::Tlb(_) = hardware else { return None };
    let has = |name: &str| keys.iter().any(|key| key.name == name);
    let unknown = given.keys().find(|name| !has(name))?;
    let parts = reference().into_iter().filter(|part| part.keys.iter().any(|key| key.name == *unknown));
    let choices = parts.filter_map(|part| part.selected_by).filter(|(by, _)| *by != KIND.name && has(by));
    let choices: Vec<String> = choices.map(|(by, name)| format!("{by} = {name}")).collect();
    (!choices.is_empty()).then(|| format!("unknown key '{unknown}': it comes with {}", choices.join(" or ")))
}

/// A machine, completely described.
pub struct MachineSpec {
    /// As the user wrote it; the name in the result.
    pub name: String,
    /// One line for display.
    pub about: String,
    /// The translation hardware.
    pub hardware: Hardware,
    /// Every key, resolved.
    pub params: Params,
    /// Whether the description has a seed of its own.
    seeded: bool,
}

impl MachineSpec {
    /// Reads `NAME[:key=value,...]` or `FILE.toml[:key=value,...]`. `seed` counts unless the description has one.
    ///
    /// # Errors
    /// [`Error::Io`]: the file cannot be read, is larger than 1 MB, or is no UTF-8 text. [`Error::Config`]: there is no
    /// preset of this name, or the description is refused, with key, value and what is allowed. Conditions that only
    /// the parts of a machine check, such as entries that ways divide or memory in whole pages, are refused by
    /// [`Lab::new`](super::Lab::new).
    pub fn parse(text: &str, seed: u64) -> Result<MachineSpec, Error> {
        let config = |what: String| Error::Config { machine: text.to_owned(), what };
        let (base, overrides) = MachineSpec::split(text);
        let toml = if let Some(file) = MachineSpec::file(text) {
            description::read(file)?
        } else {
            Preset::toml_of(base).ok_or_else(|| config(presets::unknown(base)))?.into_owned()
        };
        MachineSpec::from_toml(text, &toml, overrides, seed)
    }

    /// A machine of a kind with every key at its default, from `KIND[:key=value,...]`; none if there is no such kind.
    ///
    /// # Errors
    /// [`Error::Config`] as in [`MachineSpec::parse`].
    pub fn of_kind(text: &str) -> Option<Result<MachineSpec, Error>> {
        let (kind, overrides) = MachineSpec::split(text);
        let hardware = Hardware::all(DESIGNS).find(|hardware| hardware.kind() == kind)?;
        let toml = format!("about = {}\nkind = \"{kind}\"\n", description::toml(&hardware.about().into()));
        Some(MachineSpec::from_toml(text, &toml, overrides, 0))
    }

    /// Reads several, each as in [`MachineSpec::parse`] or the name of a group, which stands for all its presets:
    /// `ds13` or `all`, with overrides for each of them.
    ///
    /// # Errors
    /// The first of [`MachineSpec::parse`].
    pub fn parse_all(texts: impl IntoIterator<Item = impl AsRef<str>>, seed: u64) -> Result<Vec<MachineSpec>, Error> {
        let names = texts.into_iter().flat_map(|text| Preset::named(text.as_ref()));
        names.map(|name| MachineSpec::parse(&name, seed)).collect()
    }

    /// The files that are read for it: its description, and those that its keys name.
    pub fn inputs(&self) -> Vec<&str> {
        let keys = MachineSpec::keys(self.hardware, self.params.as_json());
        let named =
            keys.iter().filter(|key| matches!(key.allowed, Allowed::File)).map(|key| self.params.text(key.name));
        MachineSpec::file(&self.name).into_iter().chain(named.filter(|name| !name.is_empty())).collect()
    }

    /// The file that `text` names, if it is not a preset.
    pub(super) fn file(text: &str) -> Option<&str> {
        Some(MachineSpec::split(text).0).filter(|base| base.ends_with(FILE))
    }

    /// The machine and its overrides. A colon in the path of a file, `FILE.toml` or `FILE.toml:`, is part of the path;
    /// one in an override is behind a `=`.
    pub(super) fn split(text: &str) -> (&str, &str) {
        let path = &text[..text.find('=').unwrap_or(text.len())];
        let end =
            path.find(&format!("{FILE}:")).or_else(|| text.strip_suffix(FILE).map(str::len)).map(|at| at + FILE.len());
        match end.filter(|&end| end <= path.len()) {
            Some(end) => (&text[..end], text[end..].strip_prefix(':').unwrap_or("")),
            None => text.split_once(':').unwrap_or((text, "")),
        }
    }

    /// From TOML text and `key=value,...` overrides; the key `kind` names a design of the registry. `name`: what
    /// messages and results call it.
    ///
    /// # Errors
    /// [`Error::Config`] as in [`MachineSpec::parse`].
    pub fn from_toml(name: &str, toml: &str, overrides: &str, seed: u64) -> Result<MachineSpec, Error> {
        MachineSpec::with_designs(name, toml, overrides, seed, DESIGNS)
    }

    /// As [`MachineSpec::from_toml`], with designs of your own: for a program that tries a design without touching the
    /// registry. `designs` are those that `kind` can name besides machines with caches: [`DESIGNS`] and yours, as a
    /// rule. Of two with one name the first counts.
    ///
    /// # Errors
    /// [`Error::Config`] as in [`MachineSpec::parse`].
    pub fn with_designs(
        name: &str,
        toml: &str,
        overrides: &str,
        seed: u64,
        designs: &[&'static Design],
    ) -> Result<MachineSpec, Error> {
        let config = |what: String| Error::Config { machine: name.to_owned(), what };
        let Description { about, keys: mut base, lines } = description::parse(toml).map_err(config)?;
        let mut given = Map::new();
        for pair in overrides.split(',').filter(|p| !p.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| config(format!("'{pair}' is not an override; write key=value")))?;
            if given.insert(key.trim().to_owned(), Json::from(value.trim())).is_some() {
                return Err(config(format!("the key '{}' is given twice", key.trim())));
            }
        }
        // Line numbers of a preset are of no use to the user.
        let is_preset = Preset::toml_of(MachineSpec::split(name).0).is_some();
        let config = |what: String| config(if is_preset { what } else { lines.place(what, &given) });
        let word = |key: &str, default: &str| {
            let value = given.get(key).or_else(|| base.get(key));
            value.map_or(default.to_owned(), |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
        };
        let all = || Hardware::all(designs);
        let kind = word("kind", "");
        let hardware = all().find(|h| h.kind() == kind).ok_or_else(|| {
            let missing = !given.contains_key(KIND.name) && !base.contains_key(KIND.name);
            let what =
                if missing { "the key 'kind' is missing".into() } else { format!("kind = '{kind}' is not allowed") };
            config(format!("{what}: kind must be {}", one_of(&kind, &all().map(|h| h.kind()).collect::<Vec<_>>())))
        })?;
        let placement = word("placement", os::PLACEMENT.default);
        if os::placement::placement(&placement).is_none() {
            let names = one_of(&placement, &MachineSpec::registered(os::PLACEMENT.name));
            return Err(config(format!("placement = '{placement}' is not allowed: placement must be {names}")));
        }
        let all: Map<String, Json> = base.clone().into_iter().chain(given.clone()).collect();
        let keys = MachineSpec::keys(hardware, &all);
        // Keys of the preset for a part that an override replaced do not fit the new part.
        let choices = || [KIND.name, os::PLACEMENT.name].into_iter().chain(CHOICES.iter().map(|(key, _)| key.name));
        if choices().any(|choice| given.contains_key(choice)) {
            base.retain(|name, _| keys.iter().any(|k| k.name == name));
        }
        base.extend(given.clone());
        let seeded = base.contains_key(os::SEED.name);
        base.entry(os::SEED.name).or_insert(seed.into());
        if let Some(refusal) = params::unknown(&keys, &base) {
            let refusal = comes_with(hardware, &keys, &base).unwrap_or(refusal);
            let chosen = choices().skip(1).filter_map(|choice| {
                let value = base.get(choice)?;
                let text = value.as_array().map(|items| items.iter().filter_map(Json::as_str).collect::<Vec<_>>());
                Some(format!("{choice}={}", text.map_or_else(|| value.as_str().unwrap_or("").into(), |t| t.join("+"))))
            });
            let chosen = chosen.collect::<Vec<_>>().join(",");
            let chosen =
                if chosen == format!("{}={}", os::PLACEMENT.name, os::PLACEMENT.default) { "".into() } else { chosen };
            return Err(config(format!("{refusal}{}", all_keys(&refusal, hardware, &chosen, &keys))));
        }
        let params = Params::resolve(&keys, &base).map_err(config)?;
        let spec = MachineSpec { name: name.to_owned(), about, hardware, params, seeded };
        spec.check_feedback().map_err(config)?;
        spec.check_guest().map_err(config)?;
        spec.check_restsegs().map_err(config)?;
        spec.check_walks().map_err(config)?;
        spec.check_recorded_system().map_err(config)?;
        Ok(spec)
    }

    /// F-4: an operating system that reads counters needs hardware that has them.
    fn check_feedback(&self) -> Result<(), String> {
        let refuse = |with: &str, why: &str| {
            Err(format!(
                "range_feedback = true is not allowed with {with}: {why}; it needs ranges = true, kind = range, \
                 walk_cost = fixed"
            ))
        };
        if !self.system_reads_counters() {
            Ok(())
        } else if !self.params.flag(os::ranges::RANGES.name) {
            refuse("ranges = false", "there is no threshold")
        } else if !self.params.has(range::RANGE_ENTRIES.name) {
            refuse(&format!("kind = {}", self.hardware.kind()), "no range TLB counts misses")
        } else if self.by_lines() {
            refuse("walk_cost = caches", "machines with caches go through spans in which no range may change")
        } else {
            Ok(())
        }
    }

    /// DS13-41: registers of a guest need a system that makes segments.
    fn check_guest(&self) -> Result<(), String> {
        let params = &self.params;
        // Hardware without registers refuses the key itself.
        if !params.has(segment::SEGMENTS.name) || !["segment", "composed"].contains(&params.text(host::GUEST.name)) {
            return Ok(());
        }
        let refuse = |with: &str, why: &str| {
            Err(format!("{} = {} is not allowed with {with}: {why}", host::GUEST.name, params.text(host::GUEST.name)))
        };
        let (sets, placement) = (params.int(segment::SEGMENTS.name), params.text(os::PLACEMENT.name));
        if params.flag(SPLIT.name) {
            refuse("split = true", "each half would have registers of its own")
        } else if sets > 1 && !params.flag(os::ranges::RANGES.name) {
            refuse(
                &format!("segments = {sets} and ranges = false"),
                "the system of the guest keeps no ranges for its registers",
            )
        } else if sets == 1 && placement != os::placement::SEGMENT.name {
            let why = "the system of the guest makes no segments; placement must be segment";
            refuse(&format!("placement = {placement}"), why)
        } else {
            Ok(())
        }
    }

    /// A system that is told of each walk needs a machine in which any walk may be followed by a change.
    fn check_walks(&self) -> Result<(), String> {
        match os::walk_key(&self.params) {
            Some(key) if self.by_lines() => Err(format!(
                "{} = {} is not allowed on a machine with caches (walk_cost = caches, or virtual caches): it goes \
                 through spans of references in which the system learns of no walk; {} must be {}",
                key.name, key.value, key.name, key.without
            )),
            _ => Ok(()),
        }
    }

    /// UTO-1: walks of RestSegs need a system that makes some.
    fn check_restsegs(&self) -> Result<(), String> {
        let (params, placement) = (&self.params, self.params.text(os::PLACEMENT.name));
        let walks = self.behind().iter().any(|part| part == additions::utopia::LISTED.name);
        if walks && placement != os::placement::utopia::UTOPIA.name {
            return Err(format!(
                "{} = {} is not allowed with placement = {placement}: the system of this machine makes no RestSegs; \
                 placement must be {}",
                additions::BEHIND.name,
                params.texts(additions::BEHIND.name).join("+"),
                os::placement::utopia::UTOPIA.name
            ));
        }
        Ok(())
    }

    /// What a recorded system does, which makes its page tables itself, must be all that changes them, and its kernel
    /// is in every address space.
    fn check_recorded_system(&self) -> Result<(), String> {
        if !self.follows_recorded_system() {
            return Ok(());
        }
        let params = &self.params;
        let refuse = |key: &str, value: &str, why: &str| {
            Err(format!("{key} = {value} is not allowed with {} = {GUEST_PLACEMENT}: {why}", os::PLACEMENT.name))
        };
        let cores = CORES.name;
        if params.has(PROCESS_IDS.name) && !params.flag(PROCESS_IDS.name) {
            let why = "a switch would drop the kernel's entries, which are global, and the recorded system says itself \
                       what its switches drop: see the key 'tags'; it must be true";
            refuse(PROCESS_IDS.name, "false", why)
        } else if params.has(cores) && params.int(cores) > 1 {
            let why = "each virtual processor of the recording has TLBs of its own; it must be 1";
            refuse(cores, &params.int(cores).to_string(), why)
        } else if self.hardware.tlb().is_none() {
            let why = "virtual caches need regions and objects of programs, which a recorded system does not tell";
            refuse(KIND.name, self.hardware.kind(), why)
        } else if let Some(part) = self.behind().iter().find(|part| *part == additions::asap::LISTED.name) {
            let why = "it reads the regions of a program (ASA-1), which a recorded system does not tell";
            refuse(additions::BEHIND.name, part, why)
        } else {
            Ok(())
        }
    }

    /// The additions behind its second level.
    fn behind(&self) -> Vec<String> {
        let key = additions::BEHIND.name;
        if self.params.has(key) { self.params.texts(key) } else { Vec::new() }
    }

    /// Whether its page tables are those of a recorded system.
    pub(super) fn follows_recorded_system(&self) -> bool {
        self.params.text(os::PLACEMENT.name) == GUEST_PLACEMENT
    }

    /// Whether the operating system follows what the hardware of one machine does, so that it is shared by none but
    /// equal ones.
    pub(super) fn system_follows_hardware(&self) -> bool {
        self.system_reads_counters() || os::walk_key(&self.params).is_some()
    }

    pub(super) fn system_reads_counters(&self) -> bool {
        self.params.flag(os::ranges::FEEDBACK.name)
    }

    /// The names that a key chooses from where these are a registry, such as `kind` and `placement`; none of any other
    /// key.
    pub fn registered(key: &str) -> Vec<&'static str> {
        if key == KIND.name {
            Hardware::all(DESIGNS).map(|hardware| hardware.kind()).collect()
        } else if key == os::PLACEMENT.name {
            os::placement::PLACEMENTS.iter().map(|p| p.name).collect()
        } else if key == additions::BEHIND.name {
            additions::ADDITIONS.iter().map(|addition| addition.name).collect()
        } else if key == TABLE.name {
            TABLES.iter().map(|t| t.name).collect()
        } else {
            Vec::new()
        }
    }

    /// The words that a key accepts; none if it is no choice of words.
    pub fn words(key: &Key) -> Vec<&'static str> {
        match key.allowed {
            Allowed::OneOf(words) => words.to_vec(),
            Allowed::Flag => vec!["true", "false"],
            _ => MachineSpec::registered(key.name),
        }
    }

    /// All keys of a machine with this hardware and with the parts that these values choose: placement policy,
    /// additions to a hierarchy, page table, replacement.
    pub fn keys(hardware: Hardware, given: &Map<String, Json>) -> Vec<&'static Key> {
        let mut keys = hardware.keys(given);
        keys.extend(os::keys(&os::PLACEMENT.words(given).concat()));
        keys.extend(hardware.prices());
        keys
    }

    /// The resolved description as TOML: reading it again gives the same machine. A default seed is a comment, so that
    /// the seed of a run applies.
    pub fn to_toml(&self) -> String {
        let mut text = format!("about = {}\n", description::toml(&self.about.as_str().into()));
        for (key, value) in self.params.as_json() {
            let comment = if key == os::SEED.name && !self.seeded { "# " } else { "" };
            text.push_str(&format!("{comment}{key} = {}\n", description::toml(value)));
        }
        text
    }

    /// Whether every reference counts, not only its page: machines with caches, and TLBs whose walkers read through
    /// caches.
    pub(super) fn by_lines(&self) -> bool {
        self.hardware.tlb().is_none() || walk::by_caches(&self.params)
    }

    /// The part of the description that makes its operating system; machines with equal ones share it. Where the system
    /// follows what the processor does, that is everything.
    pub(super) fn os_keys(&self) -> Map<String, Json> {
        if self.system_follows_hardware() {
            return self.params.as_json().clone();
        }
        let keys = os::keys(self.params.text("placement"));
        let own = self.params.as_json().iter().filter(|(name, _)| keys.iter().any(|k| k.name == *name));
        own.map(|(k, v)| (k.clone(), v.clone())).collect()
    }
}
