//! The registry is in order.

use super::*;

#[test]
fn names_and_keys_are_unique_and_say_whose_they_are() {
    for (i, policy) in POLICIES.iter().enumerate() {
        assert!(POLICIES[..i].iter().all(|other| other.name != policy.name), "{} is there twice", policy.name);
        assert!(!policy.about.is_empty(), "{} has a line about it", policy.name);
        for key in policy.keys {
            let whose = format!("{} = {}: ", L2_REPLACEMENT.name, policy.name);
            assert!(key.about.starts_with(&whose), "{}: {}", key.name, key.about);
            let whose = POLICIES.iter().flat_map(|policy| policy.keys);
            assert_eq!(whose.filter(|other| other.name == key.name).count(), 1, "{}", key.name);
        }
    }
    assert_eq!(NAMES[0], L2_REPLACEMENT.default);
    assert!(NAMES[1..].iter().eq(POLICIES.iter().map(|policy| &policy.name)));
}

/// CHI-1: every bit of the path counts, as one bit.
#[test]
fn signatures_fold_all_bits() {
    assert_eq!(chirp::fold(0x1234), 0x1234);
    assert_eq!(chirp::fold(0x1234_0000_0000_0000), 0x1234);
    assert_eq!(chirp::fold(0xffff_ffff_ffff_fffe), 1);
    assert!((0..64).all(|bit| chirp::fold(1 << bit) == 1 << (bit % 16)));
}
