package monopath

import (
	"math/bits"
	"sync"
	"sync/atomic"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const (
	// Fewer bytes are sooner sent in a message than opened, read and closed as a file.
	minUploadBytes = 128 << 10
	// What is kept for reuse: a fresh segment costs ten times a warm one.
	maxIdleBytes = 64 << 20
	// More than a handle takes in a request.
	handleBytes = 128
)

// An uploadPool hands out segments for items on their way to the server. Goroutines may share it.
type uploadPool struct {
	owner      *segmentOwner
	generation atomic.Uint64

	mutex sync.Mutex
	// idle are segments that were given back, the coldest first.
	idle      []*ownSegment
	idleBytes int
	closed    bool
}

// An upload is an item's bytes in a segment of this process.
type upload struct {
	pool        *uploadPool
	segment     *ownSegment
	lengthBytes int
}

func newUploadPool(owner *segmentOwner) *uploadPool {
	return &uploadPool{owner: owner}
}

// put copies an item's bytes into a segment. It returns nil where they are few, or where no memory is left: the same
// bytes can go another way.
func (p *uploadPool) put(data []byte) *upload {
	if len(data) < minUploadBytes {
		return nil
	}
	sizeBytes := segmentBytes(len(data))
	segment := p.takeIdle(sizeBytes)
	if segment == nil {
		var err error
		if segment, err = p.owner.create(sizeBytes); err != nil {
			p.dropIdle(0)
			if segment, err = p.owner.create(sizeBytes); err != nil {
				return nil
			}
		}
	}
	copy(segment.memory, data)
	return &upload{pool: p, segment: segment, lengthBytes: len(data)}
}

// close takes away what is idle, and what is given back later.
func (p *uploadPool) close() {
	p.mutex.Lock()
	p.closed = true
	p.mutex.Unlock()
	p.dropIdle(0)
}

// takeIdle returns the warmest segment of a size, nil where none is idle.
func (p *uploadPool) takeIdle(sizeBytes int) *ownSegment {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for index := len(p.idle) - 1; index >= 0; index-- {
		if segment := p.idle[index]; len(segment.memory) == sizeBytes {
			p.idle = append(p.idle[:index], p.idle[index+1:]...)
			p.idleBytes -= sizeBytes
			return segment
		}
	}
	return nil
}

func (p *uploadPool) takeBack(segment *ownSegment) {
	p.mutex.Lock()
	p.idle = append(p.idle, segment)
	p.idleBytes += len(segment.memory)
	limit := maxIdleBytes
	if p.closed {
		limit = 0
	}
	p.mutex.Unlock()
	p.dropIdle(limit)
}

// dropIdle takes segments away that were not used for longest.
func (p *uploadPool) dropIdle(limitBytes int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for p.idleBytes > limitBytes {
		p.idleBytes -= len(p.idle[0].memory)
		p.idle[0].remove()
		p.idle = p.idle[1:]
	}
}

// handle returns the upload's handle, to be called in the order in which requests are sent: each one's generation is
// larger than the last one's.
func (u *upload) handle() *monopathv1.SharedMemoryHandle {
	return &monopathv1.SharedMemoryHandle{
		Name:        u.segment.name,
		LengthBytes: uint64(u.lengthBytes),
		Generation:  u.pool.generation.Add(1),
	}
}

// end gives the segment back: the server reads it no more. Harmless when repeated, and without an upload.
func (u *upload) end() {
	if u != nil && u.segment != nil {
		u.pool.takeBack(u.segment)
		u.segment = nil
	}
}

// segmentBytes rounds up to a quarter of a power of two, so that similar sizes share segments and at most a quarter is
// wasted.
func segmentBytes(sizeBytes int) int {
	step := 1 << (bits.Len(uint(sizeBytes-1)) - 3)
	return (sizeBytes + step - 1) / step * step
}
