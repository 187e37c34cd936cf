//! One structure of a design under check: its module, what was asked of it, and what it should have answered.

use crate::compile::Compiler;
use crate::excerpt::Excerpt;
use crate::model::{Model, answer_words};
use crate::modules::{Module, Parameters};
use crate::request::{Answer, Expected, Op, Request};
use std::fmt;
use std::path::{Path, PathBuf};

/// Requests in a batch.
const BATCH: usize = 1 << 15;
/// Requests before a difference that are shown with it.
const EARLIER: usize = 5;

/// Valid, modified and used bits as the simulator has them, in words. Used bits count where an entry is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// A bit for each part of an entry.
    pub valid: Vec<u64>,
    /// As before.
    pub modified: Vec<u64>,
    /// A bit for each entry.
    pub used: Option<Vec<u64>>,
}

/// What went through a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Lookups, walks and searches.
    pub lookups: u64,
    /// Fills.
    pub fills: u64,
    /// Invalidations and demotions.
    pub drops: u64,
    /// Times that all valid, modified and used bits were compared.
    pub states: u64,
}

/// Where a module does something else than the simulator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Which structure of which machine.
    pub part: String,
    /// The module.
    pub module: &'static str,
    /// Requests before this one.
    pub before: u64,
    /// The request.
    pub request: String,
    /// The last few before it.
    pub earlier: Vec<String>,
    /// The cycle of its answer.
    pub cycle: u64,
    /// What the simulator did.
    pub wanted: String,
    /// What the module did.
    pub came: String,
    /// The waveform of what led to it, or why there is none.
    pub wave: Result<PathBuf, String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { part, module, before, request, earlier, cycle, wanted, came, wave } = self;
        writeln!(f, "{part}: {module}.sv differs from the simulator at cycle {cycle}, after {before} requests")?;
        for earlier in earlier {
            writeln!(f, "  before     {earlier}")?;
        }
        writeln!(f, "  request    {request}")?;
        writeln!(f, "  simulator  {wanted}")?;
        writeln!(f, "  module     {came}")?;
        match wave {
            Ok(file) => write!(f, "  waveform   {} (GTKWave, Surfer)", file.display()),
            Err(why) => write!(f, "  no waveform: {why}"),
        }
    }
}

/// Why a check cannot go on.
#[derive(Debug)]
pub enum Stop {
    /// The module differs.
    Difference(Box<Difference>),
    /// It could not be found out.
    Failure(String),
}

struct Asked {
    /// Where its words begin.
    at: usize,
    expected: Expected,
    state: Option<Box<State>>,
}

#[derive(Default)]
struct Batch {
    words: Vec<u64>,
    asked: Vec<Asked>,
}

/// See the module.
pub struct Part {
    label: String,
    module: &'static Module,
    /// Without one nothing is compared.
    model: Option<Model>,
    waves: PathBuf,
    widths: Widths,
    /// What is collected, and what the model works on.
    next: Batch,
    under_way: Batch,
    before: u64,
    /// What was asked so far.
    pub tally: Tally,
    /// What is kept of it, if something is.
    excerpt: Option<Excerpt>,
}

struct Widths {
    asid: u32,
    page: u32,
    frame: u32,
    entries: usize,
    parts: usize,
}

impl Part {
    /// A structure of a machine. `waves`: the folder for waveforms. Without a compiler nothing is compared.
    pub fn new(
        label: String,
        (module, parameters): (&'static Module, &Parameters),
        compiler: Option<&Compiler>,
        waves: &Path,
    ) -> Result<Part, String> {
        let model = compiler.map(|compiler| Model::start(module.name, &compiler.program(module, parameters)?));
        Ok(Part::with_model(label, (module, parameters), model.transpose()?, waves))
    }

    /// With a model that runs already.
    fn with_model(
        label: String,
        (module, parameters): (&'static Module, &Parameters),
        model: Option<Model>,
        waves: &Path,
    ) -> Part {
        let get = |name: &str, default: u64| parameters.get(name).unwrap_or(default);
        let widths = Widths {
            asid: get("ASID_W", 12) as u32,
            page: get("VPN_W", 36) as u32,
            frame: get("PFN_W", 36) as u32,
            entries: get("ENTRIES", 1) as usize,
            parts: get("PARTS", 1) as usize,
        };
        Part {
            label,
            module,
            model,
            waves: waves.to_owned(),
            widths,
            next: Batch::default(),
            under_way: Batch::default(),
            before: 0,
            tally: Tally::default(),
            excerpt: None,
        }
    }

    /// From now on lookups and fills are kept; `contents` are fills that bring what it holds.
    pub fn keep(&mut self, contents: Vec<Request>) {
        self.excerpt = Some(Excerpt { contents, ..Excerpt::default() });
    }
    /// Whether something is kept.
    pub fn keeps(&self) -> bool {
        self.excerpt.is_some()
    }
    /// Whether what it is asked has any effect.
    pub fn listens(&self) -> bool {
        self.model.is_some() || self.keeps()
    }
    /// What was kept.
    pub fn take_excerpt(&mut self) -> Option<Excerpt> {
        self.excerpt.take()
    }

    /// Its name, for people.
    pub fn label(&self) -> &str {
        &self.label
    }
    /// Its module.
    pub fn module(&self) -> &'static Module {
        self.module
    }
    /// Entries, and the parts of each that have a valid bit of their own.
    pub fn shape(&self) -> (usize, usize) {
        (self.widths.entries, self.widths.parts)
    }

    /// Asks. `state`: what the bits are afterwards.
    pub fn ask(&mut self, request: &Request, expected: Expected, state: Option<Box<State>>) -> Result<(), Stop> {
        self.check_widths(request).map_err(Stop::Failure)?;
        if let Some(excerpt) = &mut self.excerpt {
            excerpt.see(request);
        }
        match request.op {
            Op::Lookup => self.tally.lookups += 1,
            Op::Fill => self.tally.fills += 1,
            _ => self.tally.drops += 1,
        }
        if self.model.is_none() {
            return Ok(());
        }
        self.tally.states += u64::from(state.is_some());
        let at = self.next.words.len();
        request.write(state.is_some(), &mut self.next.words);
        self.next.asked.push(Asked { at, expected, state });
        if self.next.asked.len() < BATCH { Ok(()) } else { self.turn() }
    }

    /// Addresses that tags have no room for would be others.
    fn check_widths(&self, request: &Request) -> Result<(), String> {
        let Widths { asid, page, .. } = self.widths;
        let fits = |value: u64, bits: u32| bits >= 64 || value >> bits == 0;
        if !fits(request.asid.into(), asid) {
            return Err(format!(
                "{}: address space {} does not fit into {asid} bits of a tag",
                self.label, request.asid
            ));
        }
        if !fits(request.page, page) || !fits(request.limit, page) {
            return Err(format!("{}: page {:#x} does not fit into {page} bits of a tag", self.label, request.page));
        }
        Ok(())
    }

    /// Compares what was under way, and sends what was collected.
    fn turn(&mut self) -> Result<(), Stop> {
        self.compare()?;
        let batch = std::mem::take(&mut self.next);
        if !batch.asked.is_empty() {
            if let Some(model) = &mut self.model {
                model.send(batch.asked.len() as u64, &batch.words).map_err(Stop::Failure)?;
            }
            self.under_way = batch;
        }
        Ok(())
    }

    /// Waits until everything is compared.
    pub fn finish(&mut self) -> Result<(), Stop> {
        self.turn()?;
        self.compare()
    }

    fn compare(&mut self) -> Result<(), Stop> {
        let batch = std::mem::take(&mut self.under_way);
        let Widths { entries, parts, frame, .. } = self.widths;
        let (bits, used) = ((entries * parts).div_ceil(64), entries.div_ceil(64));
        let states = batch.asked.iter().filter(|a| a.state.is_some()).count();
        let words = answer_words(batch.asked.len(), states, 2 * bits + used);
        let Some(model) = &mut self.model else { return Ok(()) };
        let answers = model.receive(words).map_err(Stop::Failure)?;
        let mut rest = &answers[..];
        for (i, asked) in batch.asked.iter().enumerate() {
            let (own, further) = rest.split_at(Answer::WORDS);
            let answer = Answer::read(own);
            let state = asked.state.as_ref().map_or(0, |_| 2 * bits + used);
            let (state, further) = further.split_at(state);
            rest = further;
            let took = answer.answered - answer.accepted;
            let lookup = Request::op(&batch.words[asked.at..]) == Op::Lookup;
            let late = lookup && self.module.latency > 0 && took != self.module.latency;
            if late || !asked.expected.agrees(&answer, frame) {
                let (mut wanted, mut came) = asked.expected.against(&answer);
                if late {
                    wanted += &format!(" after {} cycles", self.module.latency);
                    came += &format!(" after {took} cycles");
                }
                return Err(self.difference(&batch, i, answer.answered, (wanted, came)));
            }
            if let Some(why) = asked.state.as_ref().and_then(|s| s.against(state, bits, parts)) {
                return Err(self.difference(&batch, i, answer.answered, why));
            }
        }
        self.before += batch.asked.len() as u64;
        Ok(())
    }

    fn difference(&mut self, batch: &Batch, i: usize, cycle: u64, (wanted, came): (String, String)) -> Stop {
        let request = |asked: &Asked| Request::read(&batch.words[asked.at..]).to_string();
        let earlier = batch.asked[i.saturating_sub(EARLIER)..i].iter().map(request).collect();
        let request = request(&batch.asked[i]);
        let name = |c: char| if c.is_ascii_alphanumeric() || "-_.=".contains(c) { c } else { '_' };
        let file = self.waves.join(format!("{}.fst", self.label.chars().map(name).collect::<String>()));
        let wave = std::path::absolute(&file).map_err(|e| format!("{}: {e}", file.display()));
        let model = self.model.as_mut().ok_or_else(|| "there is no model".to_owned());
        let wave = model.and_then(|model| wave.and_then(|file| model.trace(i as u64, &file).map(|()| file)));
        let before = self.before + i as u64;
        let (part, module) = (self.label.clone(), self.module.name);
        Stop::Difference(Box::new(Difference { part, module, before, request, earlier, cycle, wanted, came, wave }))
    }
}

impl State {
    /// What differs, if something does.
    fn against(&self, words: &[u64], bits: usize, parts: usize) -> Option<(String, String)> {
        let (valid, rest) = words.split_at(bits);
        let (modified, used) = rest.split_at(bits);
        let bit = |words: &[u64], i: usize| words.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 != 0);
        let list = |words: &[u64]| {
            let set = (0..words.len() * 64).filter(|&i| bit(words, i)).map(|i| i.to_string());
            set.collect::<Vec<_>>().join(" ")
        };
        let say = |what: &str, mine: &[u64], theirs: &[u64]| {
            (format!("{what} bits {}", list(mine)), format!("{what} bits {}", list(theirs)))
        };
        if self.valid != valid {
            return Some(say("valid", &self.valid, valid));
        }
        if self.modified != modified {
            return Some(say("modified", &self.modified, modified));
        }
        let mine = self.used.as_ref()?;
        let held: Vec<u64> = (0..used.len())
            .map(|w| {
                (0..64).fold(0, |word, i| {
                    let entry = w * 64 + i;
                    let is = (0..parts).any(|part| bit(valid, entry * parts + part));
                    word | u64::from(is && bit(used, entry)) << i
                })
            })
            .collect();
        (*mine != held).then(|| say("used", mine, &held))
    }
}
