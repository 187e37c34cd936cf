//! Running a kernel: as a stream, on a thread of its own, or natively.

use super::kernel::{Kernel, Settings};
use super::memory::{Native, Watch};
use super::traced::{Program, Traced};
use farreach_types::addr::Bytes;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Batch, Source};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// Batches that may wait for the reader.
const AHEAD: usize = 8;

impl Kernel {
    /// The kernel as a stream: one address space from `Start` to `End`. It runs on a thread of its own, never far ahead
    /// of its reader, and stops when the source is dropped. It takes memory for the kernel's own data and a few
    /// batches.
    ///
    /// # Errors
    /// [`Error::Workload`]: the size is too small or too large for it, or there are no references to make.
    pub fn source(&self, settings: &Settings) -> Result<Box<dyn Source + Send>> {
        self.check(settings)?;
        Ok(Box::new(Running::new(self, *settings)))
    }

    /// Runs the kernel as a program on real memory. Returns a checksum of what it computed.
    ///
    /// # Errors
    /// As [`Kernel::source`].
    pub fn run_native(&self, settings: &Settings) -> Result<u64> {
        self.run_watched(settings, Box::new(()))
    }

    /// As [`Kernel::run_native`], with an observer that is called when input is made and when the algorithm
    /// begins and ends.
    ///
    /// # Errors
    /// As [`Kernel::source`].
    pub fn run_watched(&self, settings: &Settings, watch: Box<dyn Watch>) -> Result<u64> {
        self.check(settings)?;
        Ok((self.native)(&mut Native::watched(settings.references, watch), settings))
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        let fail = |what| Err(Error::Workload { workload: self.name.to_owned(), what });
        if !(self.smallest..=self.largest).contains(&settings.size) {
            let [size, least, most] = [settings.size, self.smallest, self.largest].map(Bytes);
            return fail(format!("size = {size} is not allowed: size must be from {least} to {most}"));
        }
        if settings.references == 0 {
            return fail("references must be at least 1".into());
        }
        Ok(())
    }
}

/// A kernel that runs on a thread of its own. It starts when the first batch is asked for.
pub(super) struct Running {
    run: fn(&mut Traced, &Settings) -> u64,
    settings: Settings,
    name: &'static str,
    traced: Option<Traced>,
    /// `None` before the beginning and after the end.
    batches: Option<Receiver<Batch>>,
    thread: Option<JoinHandle<std::result::Result<u64, Box<dyn Any + Send>>>>,
    /// What the kernel computed, once it has ended.
    pub checksum: Option<u64>,
}

impl Running {
    pub fn new(kernel: &Kernel, settings: Settings) -> Running {
        Running::with_values(kernel, settings, false)
    }

    /// `keep_opaque`: opaque values are kept too, so that the checksum equals that of the native run.
    pub fn with_values(kernel: &Kernel, settings: Settings, keep_opaque: bool) -> Running {
        let (out, batches) = sync_channel(AHEAD);
        let program = Program { name: kernel.name, layout: kernel.layout, text_pages: kernel.text_pages };
        let traced = Some(Traced::new(out, &program, settings.references, keep_opaque));
        let (run, name) = (kernel.traced, kernel.name);
        Running { run, settings, name, traced, batches: Some(batches), thread: None, checksum: None }
    }

    fn begin(&mut self, mut traced: Traced) -> Result<()> {
        let (run, settings) = (self.run, self.settings);
        let body = move || {
            catch_unwind(AssertUnwindSafe(|| {
                let checksum = run(&mut traced, &settings);
                traced.end();
                checksum
            }))
        };
        let thread = std::thread::Builder::new().name(self.name.to_owned()).spawn(body);
        let fail = |source| Error::Io { file: format!("a thread for kernel {}", self.name), source };
        self.thread = Some(thread.map_err(fail)?);
        Ok(())
    }
}

impl Source for Running {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if let Some(traced) = self.traced.take() {
            self.begin(traced)?;
        }
        if let Some(Ok(batch)) = self.batches.as_ref().map(Receiver::recv) {
            return Ok(Some(batch));
        }
        self.batches = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(checksum))) => self.checksum = Some(checksum),
            Some(Ok(Err(panic)) | Err(panic)) => resume_unwind(panic),
            None => {}
        }
        Ok(None)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without a reader the kernel stops at its next batch.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
