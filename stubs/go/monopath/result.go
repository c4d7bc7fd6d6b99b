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
	// Features is the tensor that Plan.Features describes: little-endian, row-major. Nil where it lies in shared memory;
	// View and Bytes give it in any case.
	Features []byte
	// Provenance tells from what and by what the features were made.
	Provenance *monopathv1.Provenance
	// Timings is where the time went.
	Timings *monopathv1.ItemTimings
	// Cache tells whether the features were made for this item. Unspecified for LocalFeatures.
	Cache monopathv1.CacheOutcome

	// Features in shared memory.
	lease *lease
}

// View calls read with the tensor where it lies, without a copy. The slice is good until read returns; what is written
// to it stays this process's own.
//
// The error is what read returned; or Err, where there are no features; or ErrReleased, behind Release.
func (r Result[I]) View(read func(features []byte) error) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.lease != nil:
		return r.lease.view(read)
	default:
		return read(r.Features)
	}
}

// Bytes returns the tensor in memory of this process's own: Features, or a copy from shared memory. The error is that of
// View.
func (r Result[I]) Bytes() ([]byte, error) {
	if r.lease == nil && r.Err == nil {
		return r.Features, nil
	}
	var copied []byte
	err := r.View(func(features []byte) error {
		copied = append([]byte(nil), features...)
		return nil
	})
	return copied, err
}

// InSharedMemory says that the features lie in memory of the server's, which Release gives back.
func (r Result[I]) InSharedMemory() bool {
	return r.lease != nil
}

// Release gives features in shared memory back to the server, of this result and of its copies: as soon as no View reads
// them. It waits for nothing. Harmless when repeated, and for other results.
//
// Features that were not released lie in memory that the server cannot use for other items, until the stream ends or the
// server's lease timeout is over. They stay readable behind both.
func (r Result[I]) Release() {
	if r.lease != nil {
		r.lease.release()
	}
}

// featureBytes is the size of the features, wherever they lie.
func (r Result[I]) featureBytes() uint64 {
	if r.Err != nil {
		return 0
	}
	return uint64(r.Plan.GetFeatures().GetSizeBytes())
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
	var values []float32
	err := r.View(func(features []byte) (err error) {
		values, err = float32sOf(features, r.Plan.GetFeatures().GetDataType())
		return err
	})
	return values, err
}

func float32sOf(features []byte, dataType monopathv1.DataType) ([]float32, error) {
	values := make([]float32, 0, len(features))
	switch dataType {
	case UInt8:
		for _, value := range features {
			values = append(values, float32(value))
		}
	case Float32:
		for rest := features; len(rest) > 0; rest = rest[4:] {
			values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
		}
	case BFloat16:
		for rest := features; len(rest) > 0; rest = rest[2:] {
			values = append(values, BFloat16ToFloat32(binary.LittleEndian.Uint16(rest)))
		}
	case Float16:
		for rest := features; len(rest) > 0; rest = rest[2:] {
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
