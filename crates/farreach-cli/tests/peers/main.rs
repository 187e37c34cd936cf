//! The recorder beside other tools of Valgrind. A program of its own, because these tests empty the environment of the
//! process; so they run one after the other.

mod cachegrind;
#[allow(dead_code, reason = "the suite uses the rest")]
#[path = "../suite/common/mod.rs"]
mod common;
mod lackey;

use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// While it lives, no other test of this program runs. Restores the environment at the end.
struct Alone {
    environment: Vec<(OsString, OsString)>,
    _others_wait: MutexGuard<'static, ()>,
}

impl Alone {
    fn new() -> Alone {
        static ONE: Mutex<()> = Mutex::new(());
        let others_wait = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        Alone { environment: std::env::vars_os().collect(), _others_wait: others_wait }
    }

    /// Leaves nothing in the environment but where Valgrind's tools are.
    fn empty_environment(&self) {
        // SAFETY: each test of this program holds an `Alone`, so no other thread reads the environment meanwhile.
        unsafe {
            self.environment.iter().for_each(|(name, _)| std::env::remove_var(name));
            std::env::set_var("VALGRIND_LIB", common::tool());
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe {
            std::env::remove_var("VALGRIND_LIB");
            self.environment.iter().for_each(|(name, value)| std::env::set_var(name, value));
        }
    }
}
