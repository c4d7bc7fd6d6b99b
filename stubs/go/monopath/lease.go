package monopath

import (
	"errors"
	"runtime"
	"sync"
)

// ErrReleased says that features were asked for whose memory was given back.
var ErrReleased = errors.New("monopath: the features were released")

// A lease is the features of one item in memory of the server's, as long as this process reads them. Goroutines may
// share it.
type lease struct {
	// putBack gives the mapping back, and tell has the server told, when nobody reads any more.
	putBack, tell func()

	mutex sync.Mutex
	// features are the item's bytes; nil once they are released.
	features    []byte
	readerCount int
	released    bool
}

func newLease(features []byte, putBack, tell func()) *lease {
	begun := &lease{putBack: putBack, tell: tell, features: features}
	// A net only: the collector may come late. In a goroutine, since it has to wait for a mutex.
	runtime.SetFinalizer(begun, func(forgotten *lease) { go forgotten.release() })
	return begun
}

// view calls read with the features, and keeps them mapped meanwhile.
func (l *lease) view(read func(features []byte) error) error {
	l.mutex.Lock()
	if l.released {
		l.mutex.Unlock()
		return ErrReleased
	}
	l.readerCount++
	features := l.features
	l.mutex.Unlock()
	defer l.leave()
	return read(features)
}

func (l *lease) leave() {
	l.mutex.Lock()
	l.readerCount--
	last := l.released && l.readerCount == 0
	l.mutex.Unlock()
	if last {
		l.putBack()
		l.tell()
	}
}

// release ends the lease, and has the server told: as soon as nobody reads. Harmless when repeated.
func (l *lease) release() {
	if l.close() {
		l.tell()
	}
}

// close ends the lease without the server being told. It returns whether that is now to be done.
func (l *lease) close() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.released {
		return false
	}
	l.released, l.features = true, nil
	runtime.SetFinalizer(l, nil)
	if l.readerCount > 0 {
		return false
	}
	l.putBack()
	return true
}
