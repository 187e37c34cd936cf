//! Random machines, for the laboratory and for the oracle.

use super::*;

/// A machine, described for the laboratory and for the oracle.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) text: String,
    pub(super) run: RunConfig,
    /// Whether the hardware is compared too, not only the system.
    pub(super) hardware: bool,
}

/// In base pages of 2^k pages of 4 KB.
pub(super) fn size(pages: u64, k: u32) -> String {
    (pages << (BASE_SHIFT + k)).to_string()
}

pub(super) fn sizes(pages: &[u64], k: u32) -> String {
    if pages.is_empty() { "none".into() } else { pages.iter().map(|&p| size(p, k)).collect::<Vec<_>>().join("+") }
}

pub(super) fn classes(dice: &mut Dice) -> (String, Vec<Class>) {
    let memory = ("heap", vec![Class::Memory, Class::SharedMemory]);
    let (disk, nfs) = (("file", vec![Class::DiskFile]), ("nfs", vec![Class::NfsFile]));
    let all = vec![disk.clone(), nfs.clone(), memory.clone()];
    let chosen =
        dice.pick(&[all.clone(), all.clone(), all.clone(), all, vec![memory.clone()], vec![disk, nfs], vec![memory]]);
    (chosen.iter().map(|c| c.0).collect::<Vec<_>>().join("+"), chosen.into_iter().flat_map(|c| c.1).collect())
}

/// A system, as overrides and for the oracle, with unlimited memory.
pub(super) fn system(dice: &mut Dice) -> (String, OsConfig) {
    let mut c = OsConfig::demand();
    c.k = dice.pick(&[0, 0, 0, 0, 1, 2, 2, 4, 6, 9]);
    let mut text = format!("page_size={},", size(1, c.k));
    c.region = dice.pick(&[1, 2, 4, 4, 8, 16, 16, 16, 64]);
    c.reservation = dice.percent(65);
    if c.reservation {
        (c.clip, c.prefetch) = (dice.percent(60), dice.percent(50));
        let (names, reserve) = classes(dice);
        c.reserve = reserve;
        write!(text, "placement=reservation,region={},clip={},", size(c.region, c.k), c.clip).unwrap();
        write!(text, "prefetch={},reserve={names}", c.prefetch).unwrap();
    } else if c.region > 1 && dice.percent(60) {
        let (least, spare) = (dice.pick(&[0, 4, 16, 40]), dice.pick(&[0, 0, 3, 20]));
        c.two_size = Some((least, spare));
        let (names, large) = classes(dice);
        c.reserve = large;
        write!(text, "placement=two-size,large={},large_object={},", size(c.region, c.k), size(least, c.k)).unwrap();
        write!(text, "large_free={},large_kinds={names}", size(spare, c.k)).unwrap();
    } else {
        text.push_str("placement=demand");
    }
    let own = if c.region > 1 { vec![c.region] } else { vec![2] };
    let promote: [Vec<u64>; 7] = [vec![], vec![], own.clone(), own.clone(), own, vec![2, 8], vec![4, 16, 32]];
    c.promote = dice.pick(&promote);
    let (names, promoted) = classes(dice);
    c.promote_classes = promoted;
    let thresholds = [0.0, 0.25, 0.5, 0.75, 0.8, 1.0, 1.0];
    (c.threshold_memory, c.threshold_disk, c.threshold_nfs) =
        (dice.pick(&thresholds), dice.pick(&thresholds), dice.pick(&thresholds));
    c.strict = dice.percent(15);
    write!(text, ",promote={},promote_kinds={names}", sizes(&c.promote, c.k)).unwrap();
    write!(text, ",threshold_heap={},threshold_file={}", c.threshold_memory, c.threshold_disk).unwrap();
    write!(text, ",threshold_nfs={},strict_threshold={}", c.threshold_nfs, c.strict).unwrap();
    c.nfs_prefixes = dice.pick(&[vec![], vec!["/nfs/".to_owned()], vec!["/nfs/bin".to_owned(), "/lib".to_owned()]]);
    c.reclaim_batch = dice.pick(&[1, 1, 1, 2, 7]);
    write!(text, ",nfs={},reclaim_batch={}", c.nfs_prefixes.join("+"), c.reclaim_batch).unwrap();
    (text, c)
}

/// Hardware: preset, overrides, the oracle's view, whether to compare.
pub(super) fn hardware(dice: &mut Dice, seed: u64, k: u32) -> (String, TlbConfig, bool) {
    let (kind, mut preset) = dice.pick(&[
        (TlbKind::Single, "single"),
        (TlbKind::Superpage, "superpage"),
        (TlbKind::Superpage, "superpage"),
        (TlbKind::Complete, "complete"),
        (TlbKind::Partial, "partial"),
        (TlbKind::Partial, "partial"),
        (TlbKind::Integrated, "integrated"),
    ]);
    let mut c = TlbConfig { seed, ..TlbConfig::new(kind) };
    c.entries = dice.pick(&[1, 2, 3, 4, 6, 8, 16, 64]);
    let mut text = String::new();
    let in_sets = matches!(kind, TlbKind::Single | TlbKind::Complete | TlbKind::Partial);
    if in_sets && dice.percent(40) {
        c.ways = dice.pick(&[1, 2, 4]);
        c.entries = c.ways * dice.pick(&[1, 2, 4, 16]);
        if kind == TlbKind::Single {
            preset = "set-associative";
        }
    }
    if kind != TlbKind::Integrated {
        write!(text, "ways={},", c.ways).unwrap();
    }
    match kind {
        TlbKind::Superpage => {
            c.orders =
                dice.pick(&[vec![0, 4], vec![0, 4], vec![0, 2], vec![0, 1, 3, 6], vec![0, 1, 2, 3, 4, 5, 6], vec![0]]);
            write!(text, "sizes={},", sizes(&c.orders.iter().map(|o| 1 << o).collect::<Vec<_>>(), k)).unwrap();
        }
        TlbKind::Complete | TlbKind::Partial => {
            c.factor = dice.pick(&[2, 4, 8, 16, 16, 16, 32]);
            write!(text, "factor={},", c.factor).unwrap();
        }
        TlbKind::Integrated => write!(text, "sizes={},", sizes(&[1, 16, 256], k)).unwrap(),
        TlbKind::Single | TlbKind::Skewed => {}
    }
    let ways = if c.ways == 0 { c.entries } else { c.ways };
    let tree = if ways.is_power_of_two() { (Replacement::TreePlru, "plru") } else { (Replacement::Lru, "lru") };
    let (replacement, name) = dice.pick(&[
        (Replacement::UsedBit, "used-bit"),
        (Replacement::UsedBit, "used-bit"),
        (Replacement::Lru, "lru"),
        tree,
        (Replacement::Fifo, "fifo"),
        (Replacement::Random, "random"),
    ]);
    c.replacement = replacement;
    c.fill_sets_used = dice.percent(75);
    c.process_ids = !matches!(kind, TlbKind::Single | TlbKind::Superpage) || dice.percent(70);
    write!(text, "entries={},replacement={name},process_ids={}", c.entries, c.process_ids).unwrap();
    write!(text, ",fill_sets_used={}", c.fill_sets_used).unwrap();
    (format!("t94/{preset}:{text}"), c, kind != TlbKind::Integrated)
}

/// Which memories the machines of a test have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MemorySize {
    Endless,
    /// Just enough for the program without reservations, which must be taken back when memory is full.
    Tight,
    Either,
}

/// Frames beyond the needs of a program.
pub(super) const SPARE_FRAMES: [u64; 8] = [0, 0, 1, 2, 5, 16, 40, 100];

pub(super) fn machines(seed: u64, stream: &Stream, memory: MemorySize) -> Vec<Machine> {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let mut all = Vec::new();
    for _ in 0..dice.pick(&[1, 1, 2, 3]) {
        let (os_text, mut os) = system(&mut dice);
        let tight = match memory {
            MemorySize::Endless => false,
            MemorySize::Tight => true,
            MemorySize::Either => dice.percent(60),
        };
        if tight {
            let tlb = TlbConfig { entries: 1, ..TlbConfig::new(TlbKind::Single) };
            let items = stream.items();
            let mut frames = run(&RunConfig { tlb: tlb.clone(), os: os.clone() }, &items).peaks.busy.max(1)
                + dice.pick(&SPARE_FRAMES);
            os.frames = Some(frames);
            // The places of frames decide about promotion, and promotion may populate pages: limited memory can need
            // more than unlimited memory.
            let short =
                |os: &OsConfig| caught(|| Ok(run(&RunConfig { tlb: tlb.clone(), os: os.clone() }, &items))).err();
            while (!os.promote.is_empty() || os.two_size.is_some())
                && short(&os).is_some_and(|e| e.contains("out of memory"))
            {
                frames += 8;
                os.frames = Some(frames);
            }
        }
        let memory = os.frames.map_or("unlimited".to_owned(), |frames| size(frames, os.k));
        for _ in 0..dice.pick(&[1, 2, 3]) {
            let (tlb_text, tlb, hardware) = hardware(&mut dice, seed, os.k);
            let text = format!("{tlb_text},{os_text},memory={memory}");
            all.push(Machine { text, run: RunConfig { tlb, os: os.clone() }, hardware });
        }
    }
    all
}

pub(super) fn specs(machines: &[Machine], seed: u64) -> Vec<MachineSpec> {
    machines.iter().map(|m| MachineSpec::parse(&m.text, seed).unwrap_or_else(|e| panic!("{e}"))).collect()
}
