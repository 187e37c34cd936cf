//! A host with segment registers over all memory of the guest (DS13-41): it adds, and reads nothing.

use super::ListedHost;

/// The host as the registry knows it.
pub const LISTED: ListedHost = ListedHost {
    name: "segment",
    about: "segment registers of the host over all memory of the guest (DS13-41)",
    ..ListedHost::NEW
};
