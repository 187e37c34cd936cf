//! Superpages against a plain model: transparent huge pages of several sizes and their collapse in the background, and
//! huge pages from a pool with and without rounding. The model knows the frame of every page.

use super::plain::{Paged, agree};
use super::programs::{LARGE, SMALL, Shape};
use farreach_oracle::frames::Frames;
use farreach_oracle::huge::{Background, Config, From, PlainHuge, Shared};
use farreach_oracle::paging::{Counts, Model};

/// Without advice.
const SHAPES: [Shape; 2] =
    [Shape { advises: 0, ..LARGE }, Shape { lengths: &[1, 1, 2, 3, 5, 16], advises: 0, ..SMALL }];

fn follows(keys: &str, config: &Config, streams: u64, happened: impl Fn(&Counts) -> Vec<u64>) {
    let pair = |seed, shape| Paged::new(keys, PlainHuge::new(config.clone()), (seed, shape), |_, _, _, _| {});
    agree(
        (keys, streams, 500),
        |seed| SHAPES.map(|shape| pair(seed, shape)).into(),
        |pair| happened(&pair.model.paging().counts),
    );
}

#[test]
fn rmm15_26_faults_and_collapse_follow_the_plain_model() {
    let all = |c: &Counts| {
        vec![c.superpage_faults, c.collapses, c.gathered_pages, c.demotions, c.cow_copies, c.protection_faults]
    };
    let of = |frames, by_advice_only, orders: &[u32], every, groups, missing| {
        let background = Some(Background { every, groups, missing });
        Config { frames, orders: orders.to_vec(), from: From::Memory { by_advice_only, background }, shared: None }
    };
    let blocks = |pages: u64| Frames::blocks(pages, |_| true, 11, false);
    follows(
        "placement=thp,memory=16M,thp_size=16K,khugepaged=8,khugepaged_groups=2,max_ptes_none=2",
        &of(blocks(4096), false, &[2], 8, 2, 2),
        4,
        all,
    );
    follows(
        "placement=thp,memory=16M,thp_size=64K,mthp_sizes=8K+16K,khugepaged=3,khugepaged_groups=3,max_ptes_none=15",
        &of(blocks(4096), false, &[4, 2, 1], 3, 3, 15),
        4,
        all,
    );
    follows(
        "placement=thp,memory=16M,thp=madvise,thp_size=64K,khugepaged=16,max_ptes_none=0",
        &of(blocks(4096), true, &[4], 16, 8, 0),
        4,
        |c| vec![c.page_faults, c.cow_copies],
    );
    // Memory that is full, and blocks that are hard to get.
    let full = |c: &Counts| vec![c.superpage_faults, c.superpage_fallbacks, c.collapses, c.demotions];
    follows(
        "placement=thp,memory=1M,thp_size=32K,mthp_sizes=8K,khugepaged=4,max_ptes_none=7",
        &of(blocks(256), false, &[3, 1], 4, 8, 7),
        4,
        full,
    );
    let list = Frames::list(256, |_| true);
    follows(
        "placement=thp,memory=1M,allocator=fifo,thp_size=16K,khugepaged=4,khugepaged_groups=4,max_ptes_none=3",
        &of(list, false, &[2], 4, 4, 3),
        4,
        full,
    );
}

/// Superpages of shared memory: the processes that map it share them, each with its own entries.
#[test]
fn superpages_of_shared_memory_follow_the_plain_model() {
    const SHAPES: [Shape; 2] = [
        Shape {
            pages: 320,
            lengths: &[1, 8, 16, 40, 90],
            align: 16,
            in_a_row: 85,
            shared: 20,
            code: 0,
            populates: true,
            advises: 0,
            alone: false,
        },
        Shape {
            pages: 160,
            lengths: &[4, 8, 16],
            align: 4,
            in_a_row: 60,
            shared: 24,
            code: 0,
            populates: true,
            advises: 0,
            alone: false,
        },
    ];
    let follows = |keys: &str, frames: Frames, orders: &[u32], shared| {
        let from = From::Memory { by_advice_only: false, background: None };
        let config = Config { frames, orders: orders.to_vec(), from, shared: Some(shared) };
        let pair = |seed, shape| Paged::new(keys, PlainHuge::new(config.clone()), (seed, shape), |_, _, _, _| {});
        agree(
            (keys, 4, 500),
            |seed| SHAPES.map(|shape| pair(seed, shape)).into(),
            |pair| {
                let counts = &pair.model.paging().counts;
                // Advice is rare in these programs, and two that map what was advised are rarer.
                let again = if shared.by_advice_only { counts.page_faults } else { pair.model.mapped_again };
                vec![again, counts.superpage_faults, counts.demotions]
            },
        );
    };
    let blocks = |pages: u64| Frames::blocks(pages, |_| true, 11, false);
    let always = Shared { order: 2, by_advice_only: false };
    follows(
        "placement=thp,memory=16M,khugepaged=0,thp=never,shmem_enabled=always,shmem_size=16K",
        blocks(4096),
        &[],
        always,
    );
    follows(
        "placement=thp,memory=16M,khugepaged=0,thp_size=32K,mthp_sizes=8K,shmem_enabled=always,shmem_size=16K",
        blocks(4096),
        &[3, 1],
        always,
    );
    follows(
        "placement=thp,memory=16M,khugepaged=0,thp_size=64K,shmem_enabled=advise,shmem_size=8K",
        blocks(4096),
        &[4],
        Shared { order: 1, by_advice_only: true },
    );
    // Memory that is full.
    follows(
        "placement=thp,memory=512K,khugepaged=0,thp=never,shmem_enabled=always,shmem_size=16K",
        blocks(128),
        &[],
        always,
    );
}

#[test]
fn ds13_36_a_pool_and_rounding_follow_the_plain_model() {
    let of = |frames, order, superpages, rounds| Config {
        frames,
        orders: vec![order],
        from: From::Pool { superpages, rounds },
        shared: None,
    };
    let list = || Frames::list(2048, |_| true);
    let faults = |c: &Counts| vec![c.superpage_faults, c.demotions, c.cow_copies];
    follows("placement=hugetlb,huge_page=64K,pool=2M,memory=8M", &of(list(), 4, 32, false), 4, faults);
    let rounds = |c: &Counts| vec![c.superpage_faults, c.demotions, c.cow_copies, c.huge_rest_pages];
    follows(
        "placement=hugetlb,huge_page=64K,pool=4M,memory=8M,hugetlb_round=true",
        &of(list(), 4, 64, true),
        6,
        rounds,
    );
    // Few huge pages, and larger ones than most of what is mapped: a page of 1 GB is no other than one of 256 KB.
    follows("placement=hugetlb,huge_page=256K,pool=2M,memory=8M,hugetlb_round=true", &of(list(), 6, 8, true), 6, |c| {
        vec![c.superpage_faults, c.superpage_fallbacks, c.demotions, c.huge_rest_pages]
    });
    follows(
        "placement=hugetlb,huge_page=32K,pool=1M,memory=3M,hugetlb_round=true,allocator=buddy",
        &of(Frames::blocks(768, |_| true, 11, false), 3, 32, true),
        6,
        rounds,
    );
}
