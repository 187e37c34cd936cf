//! The settings of the terminal, which QEMU changes while it has the console of a guest.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, stdin};

/// The settings of the terminal on standard input. They are set again when this value is dropped: a QEMU that was
/// killed has not.
pub struct Terminal(Option<Termios>);

impl Terminal {
    /// As they are now; nothing if standard input is no terminal.
    pub fn keep() -> Terminal {
        Terminal(if stdin().is_terminal() { tcgetattr(stdin()).ok() } else { None })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // A terminal that is gone needs none.
            let _ = tcsetattr(stdin(), OptionalActions::Now, settings);
        }
    }
}
