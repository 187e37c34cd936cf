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
    /// Anything else that failed, in words.
    #[error("{0}")]
    Failed(String),
    /// A step that failed, and why.
    #[error("{what}: {source}")]
    Step {
        /// What was being done, or with what.
        what: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system refused something, and says enough itself. Not by `?`: most refusals need a name, by [`Context`].
    #[error("{0}")]
    System(#[source] std::io::Error),
}

impl Error {
    /// What stands for the file in errors of consumers of an event stream, which do not know where it comes from.
    pub const STREAM: &str = "event stream";

    /// The same error, if it is about an event stream: that of this file.
    pub fn of_stream(self, name: &str) -> Error {
        match self {
            Error::Trace { file, place, what } if file == Error::STREAM => {
                Error::Trace { file: name.into(), place, what }
            }
            other => other,
        }
    }
}

/// Result with [`enum@Error`], unless another is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says of an error what was being done: [`Error::Step`].
pub trait Context<T> {
    /// With this text. What is not there is [`Error::Failed`].
    ///
    /// # Errors
    /// It is one already, or nothing is there.
    fn context(self, what: impl Into<String>) -> Result<T>;

    /// With a text that is made only for an error.
    ///
    /// # Errors
    /// As of [`Context::context`].
    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.with_context(|| what)
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T> {
        self.map_err(|source| Error::Step { what: what().into(), source: source.into() })
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, what: impl Into<String>) -> Result<T> {
        self.with_context(|| what)
    }

    fn with_context<W: Into<String>>(self, what: impl FnOnce() -> W) -> Result<T> {
        self.ok_or_else(|| Error::Failed(what().into()))
    }
}

/// Returns [`Error::Failed`] with a text as of `format!`.
#[macro_export]
macro_rules! bail {
    ($($text:tt)+) => {
        return ::core::result::Result::Err($crate::Error::Failed(::std::format!($($text)+)).into())
    };
}

/// Returns [`Error::Failed`] unless a condition holds; its text is as of `format!`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            $crate::bail!($($text)+)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_step_says_what_was_done_and_why_it_failed() {
        let refused = || std::io::Error::other("no room");
        let error = Err::<(), _>(refused()).context("file").with_context(|| "program").unwrap_err();
        assert_eq!(error.to_string(), "program: file: no room");
        let source = error.source().and_then(|error| error.source()).unwrap();
        assert!(source.downcast_ref::<std::io::Error>().is_some(), "the system's own error is at the end of the chain");
        assert!(Error::System(refused()).source().is_some());
        assert_eq!(None::<u8>.context("nothing").unwrap_err().to_string(), "nothing");
    }

    #[test]
    fn conditions_are_errors_in_words() {
        let check = |n: u32| -> Result<u32> {
            ensure!(n < 3, "{n} is too many");
            Ok(n)
        };
        assert_eq!(check(2).unwrap(), 2);
        assert_eq!(check(3).unwrap_err().to_string(), "3 is too many");
    }
}
