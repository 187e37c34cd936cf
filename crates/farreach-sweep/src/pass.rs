//! One program, once from beginning to end, through many points.

use crate::point::Point;
use crate::program::Program;
use farreach_machine::{Lab, Options, PageLab, Progress, Sample};
use farreach_papers::{Answer, Measured};
use farreach_trace::{Cutter, Piece};
use farreach_types::counts::RunResult;
use farreach_types::event::Batch;
use farreach_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// A pass.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// What runs.
    pub program: Program,
    /// What results call it.
    pub label: String,
    /// How much of it.
    #[serde(flatten)]
    pub extent: Extent,
    /// What it goes through.
    #[serde(flatten)]
    pub work: Work,
}

/// How much of a program is run and simulated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct Extent {
    /// Instructions after which it ends.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Machines see one in this many windows of a million instructions, and what they count is estimated. All points of
    /// a program see the same windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Where it begins, and what of it is not counted. Its limit is left to the field above.
    #[serde(default, skip_serializing_if = "is_whole")]
    pub piece: Piece,
}

fn is_whole(piece: &Piece) -> bool {
    *piece == Piece::default()
}

impl Extent {
    /// All of it up to a limit, if there is one.
    pub fn up_to(limit: Option<u64>) -> Extent {
        Extent { limit, ..Extent::default() }
    }

    /// How a laboratory runs that.
    pub(crate) fn options(&self) -> Options {
        let warmup = Some(self.piece.warmup).filter(|n| *n > 0);
        let sample = self.sample.map(Sample::one_in);
        Options { limit: self.limit, warmup, sample, twice: true, ..Options::default() }
    }
}

/// What a program goes through.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Machines side by side. All have caches, or none has.
    Machines(Vec<Point>),
    /// The page-size study.
    PageSizes {
        /// Where its result is kept.
        key: String,
        /// Page sizes, ascending.
        sizes: Vec<u64>,
    },
}

/// Entries of the TLBs for which the page-size study is told; its result has all others.
pub(crate) const ENTRIES: u64 = 64;

impl Pass {
    /// Machines, or page sizes, side by side.
    pub fn width(&self) -> u64 {
        match &self.work {
            Work::Machines(points) => points.len() as u64,
            Work::PageSizes { sizes, .. } => sizes.len() as u64,
        }
    }

    /// Runs it. `watch` is told after each batch how far it is, and says whether to go on. Returns the results by their
    /// keys, without what depends on the other machines of the pass; `None` if it was stopped. `threads`: see
    /// [`Options::threads`]. Machines that must know what comes take the program twice.
    ///
    /// # Errors
    /// The program cannot be read, or a machine cannot go on: [`farreach_types::Error::Simulation`] then has the key of
    /// the point in place of the machine's name.
    pub fn run(&self, threads: usize, watch: impl FnMut(Progress) -> bool) -> Result<Option<Vec<(String, Answer)>>> {
        self.answers(threads, watch).map_err(|error| error.of_stream(&self.label))
    }

    fn answers(
        &self,
        threads: usize,
        mut watch: impl FnMut(Progress) -> bool,
    ) -> Result<Option<Vec<(String, Answer)>>> {
        let options = Options { threads, ..self.extent.options() };
        match &self.work {
            Work::Machines(points) => {
                let specs = points.iter().map(|point| {
                    let mut spec = point.spec()?;
                    // A name need not be the only one of its kind in a pass.
                    spec.name.clone_from(&point.key);
                    Ok(spec)
                });
                let mut lab = Lab::new(specs.collect::<Result<_>>()?, options)?;
                let cutter = loop {
                    let driven = self.drive(&mut watch, |batch| Ok((lab.feed(batch)?, lab.progress())))?;
                    lab.finish()?;
                    let Some((cutter, failure)) = driven else { return Ok(None) };
                    lab.judge(failure)?;
                    if !lab.again()? {
                        break cutter;
                    }
                };
                let RunResult { mut workload, machines, .. } = lab.result(&self.label, None);
                cutter.end()?;
                workload.piece = cutter.used();
                let answers = points.iter().zip(machines).map(|(point, mut machine)| {
                    machine.name.clone_from(&point.name);
                    machine.ledger.clear();
                    machine.timeline = Default::default();
                    let mut workload = workload.clone();
                    workload.seed = point.seed;
                    (point.key.clone(), Answer::Machine(Box::new(Measured { workload, machine })))
                });
                Ok(Some(answers.collect()))
            }
            Work::PageSizes { key, sizes } => {
                let mut lab = PageLab::new(sizes, ENTRIES, options)?;
                let driven = self.drive(&mut watch, |batch| Ok((lab.feed(batch)?, lab.progress())))?;
                lab.finish()?;
                let Some((cutter, failure)) = driven else { return Ok(None) };
                lab.judge(failure)?;
                cutter.end()?;
                let mut result = lab.result(&self.label, None, Vec::new());
                result.workload.piece = cutter.used();
                Ok(Some(vec![(key.clone(), Answer::PageSizes(Box::new(result)))]))
            }
        }
    }

    /// Feeds the other batches of the program until it ends or no more is wanted. Returns what cut them; nothing
    /// if it was stopped. With it an error of the source, which counts if more was wanted: sources are read ahead.
    fn drive(
        &self,
        watch: &mut dyn FnMut(Progress) -> bool,
        mut feed: impl FnMut(Batch) -> Result<(bool, Progress)>,
    ) -> Result<Option<(Cutter, Option<Error>)>> {
        let mut source = self.program.open()?;
        let mut cutter = Cutter::new(self.extent.piece.clone());
        let mut failure = None;
        loop {
            let batch = match source.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            };
            let (more, progress) = feed(cutter.apply(batch)?)?;
            if !watch(progress) {
                return Ok(None);
            }
            if !more {
                break;
            }
        }
        Ok(Some((cutter, failure)))
    }
}
