package monopath

import (
	"encoding/binary"
	"fmt"
	"math"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// A Result is the one end of one item: its features, or why it has none.
//
// I is the type of the stream's items, so that results of two paths cannot be mixed up.
type Result[I Item] struct {
	// ID is what Send returned for the item. The items that Map takes have 1, 2 and so on, in their order.
	ID int32
	// Label is the item's label, as sent.
	Label string
	// Err is why the item has no features. Nil where it has.
	Err *ItemError
	// Plan is geometry, token count and tensor of the item; see PatchGrid. Nil where an error came before it.
	Plan *monopathv1.ImagePlan
	// Features is the tensor that Plan.Features describes: little-endian, row-major.
	Features []byte
	// Provenance tells from what and by what the features were made.
	Provenance *monopathv1.Provenance
	// Timings is where the time went.
	Timings *monopathv1.ItemTimings
	// Cache tells whether the features were made for this item. Unspecified for LocalFeatures.
	Cache monopathv1.CacheOutcome
}

// PatchGrid returns the plan's patch grid. It is nil for a family whose rows of features are no patches of a grid:
// there the plan has a TileGrid or a FixedSize, and its GridThw is all zero.
func PatchGrid(plan *monopathv1.ImagePlan) *monopathv1.GridThw {
	if grid := plan.GetGridThw(); grid.GetT() != 0 {
		return grid
	}
	return nil
}

// Float32s returns the features as numbers. UINT8 features are the pixel values, before normalisation. It returns an
// error where there are no features.
func (r Result[I]) Float32s() ([]float32, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	values := make([]float32, 0, len(r.Features))
	switch dataType := r.Plan.GetFeatures().GetDataType(); dataType {
	case UInt8:
		for _, value := range r.Features {
			values = append(values, float32(value))
		}
	case Float32:
		for rest := r.Features; len(rest) > 0; rest = rest[4:] {
			values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
		}
	case BFloat16:
		for rest := r.Features; len(rest) > 0; rest = rest[2:] {
			values = append(values, BFloat16ToFloat32(binary.LittleEndian.Uint16(rest)))
		}
	case Float16:
		for rest := r.Features; len(rest) > 0; rest = rest[2:] {
			values = append(values, Float16ToFloat32(binary.LittleEndian.Uint16(rest)))
		}
	default:
		return nil, fmt.Errorf("monopath: expected features of a known element type, got %v", dataType)
	}
	return values, nil
}

// elementBytes is the size of an element, 0 for a type that this release does not know.
func elementBytes(dataType monopathv1.DataType) uint64 {
	switch dataType {
	case UInt8:
		return 1
	case BFloat16, Float16:
		return 2
	case Float32:
		return 4
	default:
		return 0
	}
}
