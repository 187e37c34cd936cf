//! Machines for the trace of a whole system, which has an operating system already: what a description says of one is
//! left out.

use crate::{MachineSpec, description};
use farreach_os as os;
use farreach_types::Error;
use farreach_types::params::{PAGE_SIZE, SEED};

/// The placement whose page tables are those of a recorded system.
const GUEST: &str = "guest";

/// The policy that makes direct segments for programs.
const SEGMENT: &str = "segment";

/// Policies without which some hardware is of no use.
const POLICIES: [&str; 3] = [SEGMENT, "perforated", "utopia"];

impl MachineSpec {
    /// Whether its page tables are those of a recorded system.
    pub fn is_for_systems(&self) -> bool {
        self.params.text(os::PLACEMENT.name) == GUEST
    }

    /// The same hardware on the page tables of a recorded system, and the keys that are left out of the description,
    /// but for those at their defaults. A description that says `placement = guest` itself stays as it is.
    ///
    /// # Errors
    /// The user chose another placement; or the hardware needs a system that makes segments, regions or the like, which
    /// a recorded one does not.
    pub fn on_recorded_system(self) -> Result<(MachineSpec, Vec<String>), Error> {
        let placement = os::PLACEMENT.name;
        let chosen = self.params.text(placement).to_owned();
        let refuse = |what: String| Error::Config { machine: self.name.clone(), what };
        if chosen == GUEST {
            return Ok((self, Vec::new()));
        }
        if self.gives_placement()? {
            return Err(refuse(format!(
                "{placement} = {chosen} is not allowed with the trace of a whole system, which has an operating \
                 system: leave it out, or {placement} must be {GUEST}"
            )));
        }
        if POLICIES.contains(&chosen.as_str()) {
            let instead =
                if chosen == SEGMENT { "; ds13/kernel has a segment for the kernel's direct map" } else { "" };
            return Err(refuse(format!(
                "its hardware needs {placement} = {chosen}, and the trace of a whole system has an operating system of \
                 its own, which does not do that; with {placement}={GUEST} it runs as hardware that is not \
                 used{instead}"
            )));
        }
        let mut toml = format!("about = {}\n", description::toml(&self.about.as_str().into()));
        let mut left_out = vec![format!("{placement} = {chosen}")];
        let keys = MachineSpec::keys(self.hardware, self.params.as_json());
        let system = os::keys(&chosen);
        for (name, value) in self.params.as_json() {
            let is_system = system.iter().any(|key| key.name == name);
            if !is_system || stays(name) {
                toml.push_str(&format!("{name} = {}\n", description::toml(value)));
            } else if name != placement && keys.iter().any(|key| key.name == name && !key.is_default(value)) {
                left_out.push(format!("{name} = {}", description::toml(value)));
            }
        }
        toml.push_str(&format!("{placement} = \"{GUEST}\"\n"));
        let made = MachineSpec::from_toml(&self.name, &toml, "", 0).map_err(|error| match error {
            Error::Config { what, .. } => refuse(format!(
                "it needs {placement} = {chosen}, and the trace of a whole system has an operating system of its own: \
                 {what}"
            )),
            other => other,
        })?;
        Ok((made, left_out))
    }

    /// Whether the user's words say where pages are placed, or the user's file.
    fn gives_placement(&self) -> Result<bool, Error> {
        let (_, overrides) = MachineSpec::split(&self.name);
        let is_it = |pair: &str| pair.split('=').next().is_some_and(|key| key.trim() == os::PLACEMENT.name);
        if overrides.split(',').any(is_it) {
            return Ok(true);
        }
        let Some(file) = MachineSpec::file(&self.name) else { return Ok(false) };
        let described = description::parse(&description::read(file)?);
        Ok(described.is_ok_and(|description| description.keys.contains_key(os::PLACEMENT.name)))
    }
}

/// Whether a key of an operating system says something of a recorded one, too: its base page, and which ranges of its
/// page tables are found.
fn stays(name: &str) -> bool {
    [PAGE_SIZE.name, SEED.name].contains(&name) || name.starts_with("range")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_system(text: &str) -> Result<(String, Vec<String>), String> {
        let made = MachineSpec::parse(text, 7).unwrap().on_recorded_system();
        made.map(|(spec, left_out)| (spec.to_toml(), left_out)).map_err(|error| error.to_string())
    }

    #[test]
    fn presets_lose_their_system_and_keep_their_hardware() {
        let (toml, left_out) = on_system("today/skylake").unwrap();
        assert!(toml.contains("placement = \"guest\"\n") && toml.contains("page_size = 4096\n"), "{toml}");
        assert_eq!(left_out, ["placement = demand"]);
        let (toml, left_out) = on_system("t94/partial:entries=32").unwrap();
        assert!(toml.contains("entries = 32\n") && !toml.contains("placement = \"reservation\""), "{toml}");
        assert!(left_out[0].starts_with("placement = "), "{left_out:?}");
    }

    #[test]
    fn a_choice_of_the_user_is_not_changed() {
        let refused = on_system("t94/single:placement=thp").unwrap_err();
        assert!(refused.contains("placement = thp is not allowed") && refused.contains("must be guest"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        std::fs::write(&file, "kind = \"single\"\nplacement = \"demand\"\n").unwrap();
        assert!(on_system(file.to_str().unwrap()).unwrap_err().contains("placement = demand is not allowed"));
        std::fs::write(&file, "kind = \"single\"\n").unwrap();
        assert!(on_system(file.to_str().unwrap()).is_ok());
        assert_eq!(on_system("t94/single:placement=guest").unwrap().1, [""; 0]);
    }

    #[test]
    fn hardware_that_needs_a_policy_is_refused() {
        for text in ["sv97/softvm", "ds13/segment", "since/perforated", "since/utopia"] {
            let refused = on_system(text).unwrap_err();
            assert!(refused.contains("an operating system of its own"), "{refused}");
        }
    }
}
