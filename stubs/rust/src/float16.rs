//! Elements of 16 bits and their values.

/// The value of a bfloat16. It is exact.
pub fn bfloat16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest bfloat16, ties to even, as the contract has it. A NaN stays one, made quiet.
pub fn f32_to_bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The value of an IEEE 754 binary16. It is exact.
pub fn float16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    match exponent {
        // Zero, or subnormal: a multiple of 2^-24, which a binary32 has exactly.
        0 => f32::from_bits(sign | (fraction as f32 / (1 << 24) as f32).to_bits()),
        0x1f => f32::from_bits(sign | 0xff << 23 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bfloat16_comes_back_from_its_value() {
        for bits in 0..=u16::MAX {
            let value = bfloat16_to_f32(bits);
            let expected = if value.is_nan() { bits | 0x40 } else { bits };
            assert_eq!(f32_to_bfloat16(value), expected);
        }
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        for (bits, expected) in
            [(0x3f80_8000, 0x3f80), (0x3f81_8000, 0x3f82), (0x3f80_8001, 0x3f81), (0x7f7f_ffff, 0x7f80)]
        {
            assert_eq!(f32_to_bfloat16(f32::from_bits(bits)), expected);
        }
    }

    #[test]
    fn float16_is_a_sign_an_exponent_and_a_fraction() {
        for bits in 0..=u16::MAX {
            let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
            let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
            let expected = match exponent {
                0 => fraction * 2_f32.powi(-24),
                0x1f if fraction == 0.0 => f32::INFINITY,
                0x1f => f32::NAN,
                _ => (1024.0 + fraction) * 2_f32.powi(exponent - 25),
            };
            let found = float16_to_f32(bits);
            assert!(found.to_bits() == (sign * expected).to_bits() || found.is_nan() && expected.is_nan());
        }
    }
}
