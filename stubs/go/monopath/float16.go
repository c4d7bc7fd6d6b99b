package monopath

import "math"

// BFloat16ToFloat32 returns the value of a bfloat16. It is exact.
func BFloat16ToFloat32(bits uint16) float32 {
	return math.Float32frombits(uint32(bits) << 16)
}

// Float32ToBFloat16 rounds to the nearest bfloat16, ties to even, as the contract has it. A NaN stays one, made quiet.
func Float32ToBFloat16(value float32) uint16 {
	bits := math.Float32bits(value)
	if value != value {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float16ToFloat32 returns the value of an IEEE 754 binary16. It is exact.
func Float16ToFloat32(bits uint16) float32 {
	sign := uint32(bits&0x8000) << 16
	exponent := uint32(bits >> 10 & 0x1f)
	fraction := uint32(bits & 0x3ff)
	switch exponent {
	case 0:
		// Zero, or subnormal: a multiple of 2^-24, which a binary32 has exactly.
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*(1.0/(1<<24))))
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	default:
		return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
	}
}
