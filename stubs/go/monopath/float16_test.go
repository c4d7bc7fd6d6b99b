package monopath

import (
	"math"
	"testing"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func TestEveryBFloat16SurvivesTheWayToFloat32AndBack(t *testing.T) {
	for bits := 0; bits <= math.MaxUint16; bits++ {
		value := BFloat16ToFloat32(uint16(bits))
		back := Float32ToBFloat16(value)
		if value != value {
			if again := BFloat16ToFloat32(back); again == again {
				t.Fatalf("expected a NaN from the NaN %#04x, got %v", bits, again)
			}
		} else if back != uint16(bits) {
			t.Fatalf("expected %#04x again, got %#04x", bits, back)
		}
	}
}

func TestFloat32IsRoundedToTheNearestBFloat16TiesToEven(t *testing.T) {
	for _, check := range []struct {
		bits uint32
		want uint16
	}{
		{0x3f800000, 0x3f80}, {0x3f807fff, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82},
		{0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80}, {0x00008000, 0x0000}, {0x00018000, 0x0002}, {0x7f800000, 0x7f80},
		{0x7f800001, 0x7fc0},
	} {
		if got := Float32ToBFloat16(math.Float32frombits(check.bits)); got != check.want {
			t.Errorf("expected %#04x of %#08x, got %#04x", check.want, check.bits, got)
		}
	}
}

func TestEveryFloat16HasTheValueThatItsFieldsSay(t *testing.T) {
	for bits := 0; bits <= math.MaxUint16; bits++ {
		exponent, fraction := bits>>10&0x1f, float64(bits&0x3ff)
		want := math.Ldexp(1024+fraction, exponent-25)
		switch {
		case exponent == 0:
			want = math.Ldexp(fraction, -24)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		if bits&0x8000 != 0 {
			want = math.Copysign(want, -1)
		}
		got := float64(Float16ToFloat32(uint16(bits)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (bits&0x8000 != 0) {
			t.Fatalf("expected %v of %#04x, got %v", want, bits, got)
		}
	}
}

func TestFeaturesOfEachElementTypeAreReadAsNumbers(t *testing.T) {
	for dataType, features := range map[monopathv1.DataType][]byte{
		UInt8:    {1, 2},
		Float32:  {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40},
		BFloat16: {0x80, 0x3f, 0, 0x40},
		Float16:  {0, 0x3c, 0, 0x40},
	} {
		plan := &monopathv1.ImagePlan{Features: &monopathv1.TensorSpec{DataType: dataType}}
		values, err := Result[CPUImage]{Plan: plan, Features: features}.Float32s()
		if err != nil || len(values) != 2 || values[0] != 1 || values[1] != 2 {
			t.Errorf("expected 1 and 2 from %v, got %v and %v", dataType, values, err)
		}
	}
	if _, err := (Result[CPUImage]{Err: &ItemError{}}).Float32s(); err == nil {
		t.Error("expected an error of a result without features, got none")
	}
}
