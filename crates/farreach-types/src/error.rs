//! The one error type of the library: what went wrong, where, and what would have been right.

/// Anything that can go wrong. The message is complete: it names file, place and value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A trace that is damaged or of no known format; `place` says where (line, block, byte).
    #[error("{file}: {place}: {what}")]
    Trace {
        /// File name, or `standard input`.
        file: String,
        /// Line, block or byte.
        place: String,
        /// What is wrong and what is allowed.
        what: String,
    },
    /// A machine description that is not acceptable.
    #[error("machine '{machine}': {what}")]
    Config {
        /// The name of the machine, as the user wrote it.
        machine: String,
        /// Key, value, what is allowed.
        what: String,
    },
    /// A simulation that cannot go on.
    #[error("machine '{machine}': {what}")]
    Simulation {
        /// The name of the machine, as the user wrote it.
        machine: String,
        /// What happened.
        what: String,
    },
    /// A workload that cannot run as asked.
    #[error("workload '{workload}': {what}")]
    Workload {
        /// Its name in the catalogue.
        workload: String,
        /// What is wrong and what is allowed.
        what: String,
    },
    /// Reading or writing failed.
    #[error("{file}: {source}")]
    Io {
        /// File name.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Result with [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;
