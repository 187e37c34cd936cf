//! Streams and keys that do not fit.

use super::*;
use farreach_types::event::{Backing, Mapping, Prot};

#[test]
fn keys_that_need_a_policy() {
    for (keys, what) in [
        ("promote=64K", "promote = 64K is not allowed with placement = guest"),
        ("memory=1G", "memory = 1G is not allowed"),
        ("allocator=buddy,compaction=direct", "compaction = direct is not allowed"),
        ("ranges=true,reclaim_unused=split", "reclaim_unused = split is not allowed"),
    ] {
        let message = Bench::keys(Arch::X86, keys).err().unwrap();
        assert!(message.contains(what), "{keys}: {message}");
    }
}

#[test]
fn streams_that_do_not_fit() {
    let all: Vec<&Key> = crate::keys("demand");
    let mut os = Os::new(&Params::resolve(&all, &Map::new()).unwrap()).unwrap();
    os.apply(KERNEL, &Op::Guest(Guest::Machine { arch: Arch::X86, processors: 1, memory: 1 }));
    assert_eq!(
        os.refusal(),
        Some("this machine has placement = demand; a recording of a whole system needs placement = guest")
    );
    let mut bench = Bench::new(Arch::X86, "");
    let mapping = Mapping { start: 0, len: 4096, prot: Prot::RW, shared: false, backing: Backing::Anonymous };
    bench.os.apply(A, &Op::Map(mapping));
    assert!(bench.refusal().contains("mappings of a program"), "{}", bench.refusal());
}

#[test]
fn recordings_that_are_cut_off() {
    let all: Vec<&Key> = crate::keys("guest");
    let given = Map::from_iter([("placement".to_owned(), json!("guest"))]);
    let mut os = Os::new(&Params::resolve(&all, &given).unwrap()).unwrap();
    let message = os.touch(A, Vpn(5), Kind::Load).map_err(|e| os.explain(e)).unwrap_err();
    assert!(message.contains("does not begin with what the system runs on"), "{message}");
    os.apply(A, &Op::Guest(Guest::Register { register: Register::Root0, value: 0 }));
    assert!(os.refusal().unwrap().contains("does not begin"));
    let message = Bench::new(Arch::X86, "").touch(A, 0, Kind::Load).unwrap_err();
    assert!(message.contains("CR3"), "{message}");
}

#[test]
fn pages_of_another_size() {
    let mut bench = Bench::new(Arch::Aarch64, "");
    bench.register(KERNEL, Register::Control, 17 | 2 << 14 | 17 << 16 | 1 << 30);
    bench.register(KERNEL, Register::Root0, 0).register(KERNEL, Register::Root1, 0);
    let message = bench.touch(A, 0, Kind::Load).unwrap_err();
    assert!(message.contains("give it page_size = 16K"), "{message}");
    assert!(Bench::new(Arch::X86, "page_size=16K").refusal().contains("it must be 4K"));
    assert!(Bench::new(Arch::Aarch64, "tags=pcid").refusal().contains("SHD-4"));
}
