//! What an instruction is, and whether this processor has it.

use std::arch::is_x86_feature_detected;

use iced_x86::{Code, CpuidFeature, Decoder, DecoderOptions};

/// An instruction by its bytes.
pub struct Named {
    /// Its mnemonic, in small letters.
    pub mnemonic: String,
    /// Its bytes, in hexadecimal.
    pub bytes: String,
    /// The feature that it needs and this processor does not have, as manuals call it.
    pub missing: Option<String>,
    /// Whether the processor of a guest has it, as far as is known: QEMU's `max`.
    pub emulated: bool,
}

/// The first instruction of `code`; `None` if there is none, for any processor.
pub fn name(code: &[u8]) -> Option<Named> {
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    if instruction.code() == Code::INVALID {
        return None;
    }
    let bytes: Vec<String> = code[..instruction.len()].iter().map(|b| format!("{b:02x}")).collect();
    let missing = instruction.cpuid_features().iter().find(|feature| has(**feature) == Some(false));
    Some(Named {
        mnemonic: format!("{:?}", instruction.mnemonic()).to_lowercase(),
        bytes: bytes.join(" "),
        missing: missing.map(|feature| format!("{feature:?}")),
        emulated: instruction.cpuid_features().iter().all(|feature| EMULATED.contains(feature)),
    })
}

/// What QEMU's processor `max` has of that which the recorder may lack. It has no AVX-512, GFNI and XSAVEC.
const EMULATED: &[CpuidFeature] = &[
    CpuidFeature::FSGSBASE,
    CpuidFeature::CLWB,
    CpuidFeature::RDPID,
    CpuidFeature::SHA,
    CpuidFeature::SSE4A,
    CpuidFeature::VAES,
    CpuidFeature::XSAVEOPT,
];

/// Whether this processor has a feature; `None` if that is not looked for.
fn has(feature: CpuidFeature) -> Option<bool> {
    use CpuidFeature as F;
    Some(match feature {
        F::AVX512F => is_x86_feature_detected!("avx512f"),
        F::AVX512BW => is_x86_feature_detected!("avx512bw"),
        F::AVX512CD => is_x86_feature_detected!("avx512cd"),
        F::AVX512DQ => is_x86_feature_detected!("avx512dq"),
        F::AVX512VL => is_x86_feature_detected!("avx512vl"),
        F::AVX512_IFMA => is_x86_feature_detected!("avx512ifma"),
        F::AVX512_VBMI => is_x86_feature_detected!("avx512vbmi"),
        F::AVX512_VBMI2 => is_x86_feature_detected!("avx512vbmi2"),
        F::AVX512_VNNI => is_x86_feature_detected!("avx512vnni"),
        F::AVX512_BITALG => is_x86_feature_detected!("avx512bitalg"),
        F::AVX512_VPOPCNTDQ => is_x86_feature_detected!("avx512vpopcntdq"),
        F::AVX512_BF16 => is_x86_feature_detected!("avx512bf16"),
        F::AVX512_FP16 => is_x86_feature_detected!("avx512fp16"),
        F::AVX_VNNI => is_x86_feature_detected!("avxvnni"),
        F::AES => is_x86_feature_detected!("aes"),
        F::GFNI => is_x86_feature_detected!("gfni"),
        F::SHA => is_x86_feature_detected!("sha"),
        F::VAES => is_x86_feature_detected!("vaes"),
        F::VPCLMULQDQ => is_x86_feature_detected!("vpclmulqdq"),
        F::TBM => is_x86_feature_detected!("tbm"),
        F::SSE4A => is_x86_feature_detected!("sse4a"),
        F::ADX => is_x86_feature_detected!("adx"),
        F::XSAVEC => is_x86_feature_detected!("xsavec"),
        F::XSAVEOPT => is_x86_feature_detected!("xsaveopt"),
        F::XSAVES => is_x86_feature_detected!("xsaves"),
        F::RDSEED => is_x86_feature_detected!("rdseed"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn instructions_of_today_have_names() {
        for (code, mnemonic, bytes) in [
            (&[0x62, 0xf1, 0xfd, 0x48, 0x58, 0xc1, 0x90][..], "vaddpd", "62 f1 fd 48 58 c1"),
            (&[0x0f, 0x38, 0xcc, 0xc1], "sha256msg1", "0f 38 cc c1"),
            (&[0x66, 0x0f, 0xae, 0x30], "clwb", "66 0f ae 30"),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xc0], "rdfsbase", "f3 48 0f ae c0"),
            (&[0x0f, 0xc7, 0x20], "xsavec", "0f c7 20"),
            (&[0x66, 0x0f, 0x38, 0xcf, 0xc1], "gf2p8mulb", "66 0f 38 cf c1"),
            (&[0xc4, 0xe2, 0x75, 0xdc, 0xc1], "vaesenc", "c4 e2 75 dc c1"),
        ] {
            let named = name(code).expect(mnemonic);
            assert_eq!((named.mnemonic.as_str(), named.bytes.as_str()), (mnemonic, bytes));
        }
        let emulated = |code: &[u8]| name(code).unwrap().emulated;
        assert!(emulated(&[0x0f, 0x38, 0xcc, 0xc1]) && emulated(&[0xc4, 0xe2, 0x75, 0xdc, 0xc1]));
        assert!(!emulated(&[0x0f, 0xc7, 0x20]) && !emulated(&[0x62, 0xf1, 0xfd, 0x48, 0x58, 0xc1]));
        let nop = name(&[0x90]).unwrap();
        assert_eq!((nop.mnemonic.as_str(), nop.missing), ("nop", None));
    }

    #[test]
    fn what_no_processor_runs_has_none() {
        for code in [&[0x06][..], &[0x0f, 0x38], &[], &[0x82, 0, 0]] {
            assert!(name(code).is_none(), "{code:02x?}");
        }
    }
}
