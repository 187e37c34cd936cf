use super::*;

const NOTHING: Touched = Touched { pte: Pte { pfn: Pfn(0), attr: Attr(0), order: 0 }, label: 0 };

fn claim(q: &mut Filter, vpn: u64, kind: Kind) -> usize {
    let (at, known) = q.find(vpn, kind);
    if known.is_none() {
        q.claim(at, vpn);
    }
    at
}
fn publish(q: &mut Filter, at: usize, kind: Kind, designs: u32) {
    (0..2).filter(|design| designs >> design & 1 != 0).for_each(|design| q.add_candidate(at, design));
    q.publish(at, kind, designs);
}
fn designs(q: &Filter, vpn: u64, kind: Kind) -> u32 {
    q.find(vpn, kind).1.map_or(0, |(designs, _)| designs)
}
fn filtered_by_all(q: &mut Filter, vpn: u64, what: usize) -> bool {
    q.fast_path().0.mismatch(vpn, LookupTimes::hash(vpn) + what) == 0
}
fn rival() -> u64 {
    (8..).find(|&v| LookupTimes::hash(v) == LookupTimes::hash(7)).unwrap()
}

#[test]
fn bits_come_and_go() {
    let mut q = Filter::new(2, 1);
    let at = claim(&mut q, 7, Kind::Load);
    publish(&mut q, at, Kind::Load, 0b01);
    assert!(!filtered_by_all(&mut q, 7, LOADS));
    publish(&mut q, at, Kind::Store, 0b10);
    assert_eq!((designs(&q, 7, Kind::Load), designs(&q, 7, Kind::Store), designs(&q, 7, Kind::Fetch)), (0b11, 0b10, 0));
    assert_eq!((filtered_by_all(&mut q, 7, LOADS), filtered_by_all(&mut q, 7, STORES)), (true, false));
    publish(&mut q, at, Kind::Store, 0b01);
    assert!(filtered_by_all(&mut q, 7, STORES));
    q.clear_design(0);
    assert_eq!((designs(&q, 7, Kind::Load), designs(&q, 7, Kind::Store)), (0b10, 0b10));
    assert_eq!((filtered_by_all(&mut q, 7, LOADS), filtered_by_all(&mut q, 7, STORES)), (false, false));
    q.clear_page(Vpn(7), 0b10, 0);
    assert_eq!(designs(&q, 7, Kind::Store), 0);
}

#[test]
fn a_conflicting_page_takes_the_slot_without_its_bits() {
    let mut q = Filter::new(1, 1);
    let at = claim(&mut q, 7, Kind::Load);
    publish(&mut q, at, Kind::Load, 0b01);
    q.set_answer(at, Kind::Load, 0b01, 0, NOTHING);
    q.stamp(at);
    assert_eq!((q.find(7, Kind::Load), q.find(rival(), Kind::Load)), ((at, Some((1, 1))), (at, None)));
    assert_eq!(q.claim(at, rival()), Some((false, Vpn(7), 1)));
    assert_eq!((q.find(7, Kind::Load), q.find(rival(), Kind::Load)), ((at, None), (at, Some((0, 0)))));
    assert!(!filtered_by_all(&mut q, 7, LOADS) && !filtered_by_all(&mut q, rival(), LOADS));
}

#[test]
fn a_served_store_serves_loads_until_the_page_changes() {
    let mut q = Filter::new(2, 2);
    let at = claim(&mut q, 7, Kind::Load);
    let answer = Touched { label: 3, pte: Pte { pfn: Pfn(1 << 50), attr: Attr(7), order: 9 } };
    q.set_answer(at, Kind::Load, 0b01, 0, NOTHING);
    q.set_answer(at, Kind::Store, 0b10, 1, answer);
    assert_eq!((q.answer(at, 0), q.answer(at, 1)), (NOTHING, answer));
    let served = |q: &Filter| [Kind::Load, Kind::Store].map(|kind| q.find(7, kind).1.unwrap().1);
    assert_eq!(served(&q), [0b11, 0b10]);
    q.clear_page(Vpn(7), 0, 0b10);
    assert_eq!(served(&q), [0b01, 0]);
}

#[test]
fn what_was_asked_before_everything_was_cleared_can_be_published_after_it() {
    let mut q = Filter::new(2, 2);
    let at = claim(&mut q, 7, Kind::Load);
    q.add_candidate(at, 0);
    q.clear();
    q.publish(at, Kind::Load, 0b01);
    assert_eq!(designs(&q, 7, Kind::Load), 0b01);
    q.clear_design(0);
    assert_eq!(designs(&q, 7, Kind::Load), 0);
}

#[test]
fn lookups_are_listed_and_forgotten() {
    let mut q = Filter::new(1, 1);
    let (data, fetch) = (claim(&mut q, 7, Kind::Load), claim(&mut q, 9, Kind::Fetch));
    claim(&mut q, 8, Kind::Load);
    q.stamp(data);
    q.stamp(fetch);
    let both = [(false, Vpn(7), 1), (true, Vpn(9), 2)];
    assert_eq!(q.lookups(false), both);
    assert_eq!(q.lookups(true), both);
    assert_eq!(q.lookups(false), []);
}

#[test]
fn a_run_goes_either_way() {
    let published = 200;
    // By page, and by kind of lookup.
    for run in [16, published / 2, 2 * published] {
        let mut q = Filter::new(2, 1);
        for vpn in 0..published {
            let at = claim(&mut q, vpn, Kind::Store);
            publish(&mut q, at, Kind::Store, 0b11);
        }
        let before: Vec<u32> = (0..published).map(|vpn| designs(&q, vpn, Kind::Store)).collect();
        q.clear_run(VpnRange { start: Vpn(1), pages: run }, 1);
        for vpn in 0..published {
            let gone = if (1..1 + run).contains(&vpn) { 0b10 } else { 0 };
            for (kind, what) in [(Kind::Load, LOADS), (Kind::Store, STORES)] {
                assert_eq!(designs(&q, vpn, kind), before[vpn as usize] & !gone, "{vpn}");
                assert_eq!(filtered_by_all(&mut q, vpn, what), designs(&q, vpn, kind) == 0b11, "{vpn}");
            }
        }
    }
}
