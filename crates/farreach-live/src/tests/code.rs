//! Bytes of blocks.

use super::*;

/// The bytes of a block follow its definition, those of a part of it too.
#[test]
fn blocks_tell_their_bytes() {
    let code = [0x0706_0504_0302_0100, 0x0b0a_0908];
    let mut told = define(1);
    told.extend(code);
    told[0] += 2;
    let words = [told.clone(), vec![RUN, 0x9000, 0xa000], record(record::CUT, &[2, 0x1008])].concat();
    let d = decode(words, false).unwrap();
    let bytes = |id, n: u8| Op::Code { id, bytes: (0..n).collect::<Vec<u8>>().into() };
    assert_eq!((&d.batch.ops[1], &d.batch.ops[3], d.batch.ops.len()), (&bytes(1, 12), &bytes(2, 8), 4));
    assert_eq!(d.batch.words, [OP_BIT, OP_BIT | 1, OP_BIT | 2, OP_BIT | 3, 2 | 1 << 32, 0x9000]);
    assert!(matches!(d.batch.ops[2], Op::Define { id: 2, .. }));
    told.push(0);
    told[0] += 1;
    assert!(decode(told, false).is_err(), "a word too many");
}
