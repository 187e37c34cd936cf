//! What can go wrong.

/// Why a program could not be followed.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// A system call of this process failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The program did what is not followed: a thread, a process, an exec, an instruction whose references are unknown.
    #[error("at {at:#x}: {what}")]
    Refused {
        /// Address of the instruction.
        at: u64,
        /// What it is.
        what: String,
    },
    /// The processor contradicts the computed references.
    #[error("at {at:#x}, {code}: computed {computed}, the processor says {seen}")]
    Contradicted {
        /// Address of the instruction.
        at: u64,
        /// Name of the decoded instruction.
        code: String,
        /// What was computed.
        computed: String,
        /// What the processor did.
        seen: String,
    },
}

impl Error {
    /// The last error of the system.
    pub(crate) fn last(what: &'static str) -> Error {
        Error::System { what, source: std::io::Error::last_os_error() }
    }
}
