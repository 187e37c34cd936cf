//! TLB designs that are written in Python.
//!
//! A subclass of [`Tlb`] becomes a design of the laboratory. Lookups that it has called filterable do not reach it, so
//! what a run costs is the number of the others, a microsecond or two each.
//!
//! The library builds a design from its keys alone (`fn(&Params)`). So whoever builds a laboratory says first which
//! classes there are ([`Failure::scope`]), and [`build`] looks the class up by the design's kind.

use crate::errors::refuse;
use farreach::addr::{Asid, Vpn, VpnRange};
use farreach::counts::TlbCounts;
use farreach::event::Kind;
use farreach::params::{Allowed, Key, Params};
use farreach::tlb::{
    Answer, Capabilities, DESIGNS, Design, EntryView, Lookup, OnDemotion, OnSwitch, OnThread, Outcome, Tlb as Design_,
    Unfiltered, keys,
};
use farreach::translation::{Attr, PageTableView, Pte as RawPte, Translation};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString, PyType};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The answers of `access`.
mod answers {
    pub const MISS: u32 = 0;
    pub const HIT: u32 = 1;
    pub const SUBBLOCK_MISS: u32 = 2;
    pub const FILTERABLE: u32 = 4;
}

/// A page table entry, as a miss handler reads it.
#[pyclass(frozen, get_all, module = "farreach")]
pub struct Pte {
    pfn: u64,
    attr: u8,
    order: u8,
}

/// The base class of designs: what it has to report, and what it counts besides misses.
#[pyclass(subclass, module = "farreach._core")]
#[derive(Default)]
pub struct Tlb {
    unfiltered: Vec<(Asid, Vpn, u64)>,
    all: bool,
    #[pyo3(get, set)]
    fills: u64,
    #[pyo3(get, set)]
    merges: u64,
    #[pyo3(get, set)]
    evictions: u64,
    #[pyo3(get, set)]
    invalidations: u64,
    #[pyo3(get, set)]
    preloaded: u64,
    #[pyo3(get, set)]
    extra_pte_reads: u64,
    #[pyo3(get, set)]
    covered_drops: u64,
}

#[pymethods]
impl Tlb {
    /// Takes any arguments: they are for the `__init__` of the subclass.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, pyo3::types::PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Tlb {
        Tlb::default()
    }

    #[pyo3(signature = (asid, vpn, pages=1))]
    fn unfilter(&mut self, asid: u32, vpn: u64, pages: u64) {
        for first in (0..pages).step_by(64) {
            let mask = if pages - first >= 64 { u64::MAX } else { (1 << (pages - first)) - 1 };
            self.unfiltered.push((Asid(asid), Vpn(vpn + first), mask));
        }
    }

    fn unfilter_all(&mut self) {
        self.all = true;
    }
}

/// The first exception that a design raised in a run, for whoever drives it.
#[derive(Clone, Default)]
pub struct Failure(Arc<(AtomicBool, Mutex<Option<PyErr>>)>);

impl Failure {
    pub fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }
    pub fn take(&self) -> Option<PyErr> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
    fn set(&self, error: PyErr) {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.0.0.store(true, Ordering::Relaxed);
    }

    /// Runs what builds designs: those written in Python are of these classes, and report to this.
    pub fn scope<T>(&self, py: Python<'_>, classes: &[&Bound<'_, PyAny>], build: impl FnOnce() -> T) -> PyResult<T> {
        let mut known = HashMap::new();
        for class in classes {
            let kind = kind(class)?;
            let same = known.insert(kind.clone(), (*class).clone().unbind());
            if same.is_some_and(|same| !same.bind(py).is(class)) {
                let what = format!("there are two classes of this name among the machines: {kind}");
                return Err(refuse(py, &kind, &what));
            }
        }
        SCOPE.set(Some((known, self.clone())));
        let built = build();
        SCOPE.take();
        Ok(built)
    }
}

type Scope = (HashMap<String, Py<PyAny>>, Failure);

thread_local! {
    /// See [`Failure::scope`].
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// The name of a class, which is the kind of its design.
fn kind(class: &Bound<'_, PyAny>) -> PyResult<String> {
    class.getattr(intern!(class.py(), "__name__"))?.extract()
}

/// The designs of the library and that of a class.
pub fn designs_with(py: Python<'_>, class: &Bound<'_, PyAny>) -> PyResult<Vec<&'static Design>> {
    let class = class.cast::<PyType>()?;
    let name = kind(class)?;
    if !class.is_subclass_of::<Tlb>()? {
        return Err(PyTypeError::new_err(format!("{name} is not a subclass of farreach.Tlb")));
    }
    if DESIGNS.iter().any(|design| design.kind == name) {
        return Err(refuse(py, &name, &format!("kind = '{name}' is not allowed: farreach has a design of this name")));
    }
    let mut given: Vec<(String, String, Type)> = Vec::new();
    let parameters = PyModule::import(py, "farreach.tlb")?.getattr("_parameters")?.call1((class,))?;
    for parameter in parameters.try_iter()? {
        let (key, default): (String, Bound<'_, PyAny>) = parameter?.extract()?;
        let (text, of) = default_of(&name, &key, &default)?;
        given.push((key, text, of));
    }
    Ok([design(&name, given)].into_iter().chain(DESIGNS.iter().copied()).collect())
}

/// What a key of a class takes: what its default is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Type {
    Int,
    Flag,
    Number,
    Text,
}

fn default_of(class: &str, key: &str, default: &Bound<'_, PyAny>) -> PyResult<(String, Type)> {
    Ok(if default.is_instance_of::<PyBool>() {
        (default.extract::<bool>()?.to_string(), Type::Flag)
    } else if default.is_instance_of::<PyInt>() {
        (default.extract::<u64>()?.to_string(), Type::Int)
    } else if default.is_instance_of::<PyFloat>() {
        (default.extract::<f64>()?.to_string(), Type::Number)
    } else if default.is_instance_of::<PyString>() {
        (default.extract()?, Type::Text)
    } else {
        return Err(PyTypeError::new_err(format!(
            "{class}.__init__: the default of {key} is {}; a whole number, a float, True or False, or a text is allowed",
            default.repr()?
        )));
    })
}

/// The design of a class: made once for each name with the same keys, and kept, as the library keeps its own.
fn design(kind: &str, given: Vec<(String, String, Type)>) -> &'static Design {
    type Made = HashMap<(String, Vec<(String, String, Type)>), &'static Design>;
    static MADE: Mutex<Option<Made>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    let id = (kind.to_owned(), given);
    if let Some(design) = made.get(&id) {
        return design;
    }
    let leak = |text: &str| -> &'static str { String::leak(text.to_owned()) };
    let key = |(name, default, of): &(String, String, Type)| -> &'static Key {
        // What belongs to the whole machine means the same here.
        for shared in [&keys::PAGE_SIZE, &keys::SEED] {
            if shared.name == name {
                return shared;
            }
        }
        let allowed = match of {
            Type::Int => Allowed::Int { min: 0, max: u64::MAX },
            Type::Flag => Allowed::Flag,
            Type::Number => Allowed::Number { min: f64::MIN, max: f64::MAX },
            Type::Text => Allowed::Text,
        };
        Box::leak(Box::new(Key { name: leak(name), default: leak(default), allowed, about: "a key of this class" }))
    };
    let keys: Vec<&'static Key> = id.1.iter().map(key).collect();
    let design: &'static Design = Box::leak(Box::new(Design {
        kind: leak(kind),
        about: "a design written in Python",
        keys: keys.leak(),
        build,
        bits: |_| None,
        reach: |params| if params.has("entries") { params.int("entries") * params.int("page_size") } else { 0 },
    }));
    made.insert(id, design);
    design
}

/// Makes an instance of the class with its keys as arguments.
fn build(params: &Params) -> Result<Box<dyn Design_>, String> {
    SCOPE.with_borrow(|scope| {
        let kind = params.text("kind");
        let (classes, failure) = scope.as_ref().ok_or("a design written in Python runs only where Python runs")?;
        let class = classes.get(kind).ok_or_else(|| format!("no class for kind = {kind}"))?;
        Python::attach(|py| {
            let class = class.bind(py);
            Instance::new(class, params, failure.clone()).map(|made| Box::new(made) as Box<dyn Design_>).map_err(
                |error| {
                    let error = format!("{}.__init__: {}", kind, error.value(py));
                    error
                },
            )
        })
    })
}

/// An instance at work. Methods are looked up once.
struct Instance {
    tlb: Py<Tlb>,
    access: Py<PyAny>,
    invalidate: Py<PyAny>,
    demote: Option<Py<PyAny>>,
    switch: Option<Py<PyAny>>,
    thread: Option<Py<PyAny>>,
    probe: Option<Py<PyAny>>,
    counts: TlbCounts,
    failure: Failure,
}

impl Instance {
    fn new(class: &Bound<'_, PyAny>, params: &Params, failure: Failure) -> PyResult<Instance> {
        let py = class.py();
        let arguments = PyDict::new(py);
        for parameter in PyModule::import(py, "farreach.tlb")?.getattr("_parameters")?.call1((class,))?.try_iter()? {
            let (key, _): (String, Bound<'_, PyAny>) = parameter?.extract()?;
            let value = &params.as_json()[&key];
            match (value.as_bool(), value.as_u64(), value.as_f64(), value.as_str()) {
                (Some(flag), ..) => arguments.set_item(key, flag)?,
                (_, Some(n), ..) => arguments.set_item(key, n)?,
                (.., Some(x), _) => arguments.set_item(key, x)?,
                (.., text) => arguments.set_item(key, text)?,
            }
        }
        let made = class.call((), Some(&arguments))?;
        let tlb = made.cast::<Tlb>()?.clone().unbind();
        let optional = |name: &str| made.getattr_opt(name).map(|found| found.map(Bound::unbind));
        Ok(Instance {
            tlb,
            access: made.getattr("access")?.unbind(),
            invalidate: made.getattr("invalidate")?.unbind(),
            demote: optional("demote")?,
            switch: optional("switch")?,
            thread: optional("thread")?,
            probe: optional("probe")?,
            counts: TlbCounts::default(),
            failure,
        })
    }

    /// Calls a method, then takes over what it reports and counts. After a failure nothing is called any more: the run
    /// is over, and somebody will notice soon.
    fn call<T>(
        &mut self,
        unfiltered: &mut Unfiltered,
        call: impl FnOnce(Python<'_>, &Instance) -> PyResult<T>,
    ) -> Option<T> {
        if self.failure.is_set() {
            return None;
        }
        Python::attach(|py| {
            let outcome = call(py, self);
            let mut tlb = self.tlb.bind(py).borrow_mut();
            for (asid, vpn, mask) in tlb.unfiltered.drain(..) {
                unfiltered.add(asid, vpn, mask);
            }
            if std::mem::take(&mut tlb.all) {
                unfiltered.add_all();
            }
            let counts = &mut self.counts;
            counts.fills = tlb.fills;
            counts.merges = tlb.merges;
            counts.evictions = tlb.evictions;
            counts.invalidations = tlb.invalidations;
            counts.preloaded = tlb.preloaded;
            counts.extra_pte_reads = tlb.extra_pte_reads;
            counts.covered_drops = tlb.covered_drops;
            drop(tlb);
            outcome.map_err(|error| self.failure.set(error)).ok()
        })
    }

    fn count_miss(&mut self, kind: Kind, pte: RawPte, outcome: Outcome) {
        let counts = &mut self.counts;
        counts.misses += 1;
        match kind {
            Kind::Fetch => counts.fetch_misses += 1,
            Kind::Load => counts.load_misses += 1,
            Kind::Store => counts.store_misses += 1,
        }
        counts.data_misses = counts.load_misses + counts.store_misses;
        counts.tag_misses += u64::from(outcome == Outcome::TagMiss);
        counts.subblock_misses += u64::from(outcome == Outcome::SubblockMiss);
        counts.superpage_misses += u64::from(pte.order > 0);
    }
}

/// What `access` returned.
fn answer(returned: &Bound<'_, PyAny>) -> PyResult<Answer> {
    let given = returned.extract::<u32>().unwrap_or(u32::MAX);
    let outcome = match given & !answers::FILTERABLE {
        answers::HIT => Outcome::Hit,
        answers::MISS => Outcome::TagMiss,
        answers::SUBBLOCK_MISS => Outcome::SubblockMiss,
        _ => {
            return Err(PyValueError::new_err(format!(
                "access returned {}; HIT, MISS or SUBBLOCK_MISS is allowed, and `| FILTERABLE`",
                returned.repr()?
            )));
        }
    };
    Ok(Answer { outcome, filterable: given & answers::FILTERABLE != 0 })
}

impl Design_ for Instance {
    fn access(&mut self, at: Lookup, pte: RawPte, _: &dyn PageTableView, unfiltered: &mut Unfiltered) -> Answer {
        let given = self.call(unfiltered, |py, this| {
            let entry = Py::new(py, Pte { pfn: pte.pfn.0, attr: pte.attr.0, order: pte.order })?;
            answer(this.access.bind(py).call1((at.asid.0, at.vpn.0, at.kind as u8, entry))?.as_any())
        });
        let Some(given) = given else { return Answer { outcome: Outcome::Hit, filterable: false } };
        if given.outcome != Outcome::Hit {
            self.count_miss(at.kind, pte, given.outcome);
        }
        given
    }

    fn invalidate(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.call(unfiltered, |py, this| this.invalidate.call1(py, (asid.0, pages.start.0, pages.end().0)));
    }

    fn probe(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let probe = self.probe.as_ref()?;
        let found = Python::attach(|py| {
            let found = probe.bind(py).call1((asid.0, vpn.0, kind as u8))?;
            found.extract::<Option<(u64, u8)>>()
        });
        let (pfn, attr) = found.map_err(|error| self.failure.set(error)).ok()??;
        Some(Translation { pfn: farreach::addr::Pfn(pfn), attr: Attr(attr) })
    }

    fn entries(&self) -> Vec<EntryView> {
        Vec::new()
    }

    fn counts(&self) -> &TlbCounts {
        &self.counts
    }
}

impl Capabilities for Instance {
    fn opaque(&self) -> bool {
        true
    }
    fn on_demotion(&mut self) -> Option<&mut dyn OnDemotion> {
        if self.demote.is_some() { Some(self) } else { None }
    }
    fn on_switch(&mut self) -> Option<&mut dyn OnSwitch> {
        if self.switch.is_some() { Some(self) } else { None }
    }
    fn on_thread(&mut self) -> Option<&mut dyn OnThread> {
        if self.thread.is_some() { Some(self) } else { None }
    }
}

/// Calls an optional method.
fn optional(method: &Option<Py<PyAny>>, py: Python<'_>, args: (u32, u64, u64)) -> PyResult<()> {
    method.as_ref().map_or(Ok(()), |method| method.call1(py, args).map(drop))
}

impl OnDemotion for Instance {
    fn demote(&mut self, asid: Asid, pages: VpnRange, unfiltered: &mut Unfiltered) {
        self.call(unfiltered, |py, this| optional(&this.demote, py, (asid.0, pages.start.0, pages.end().0)));
    }
}

impl OnSwitch for Instance {
    fn switch(&mut self, to: Asid, unfiltered: &mut Unfiltered) {
        self.call(unfiltered, |py, this| this.switch.as_ref().map_or(Ok(()), |m| m.call1(py, (to.0,)).map(drop)));
    }
}

impl OnThread for Instance {
    fn thread(&mut self, asid: Asid, thread: u32, unfiltered: &mut Unfiltered) {
        self.call(unfiltered, |py, this| {
            this.thread.as_ref().map_or(Ok(()), |m| m.call1(py, (asid.0, thread)).map(drop))
        });
    }
}
