package monopath

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"google.golang.org/grpc/codes"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const (
	probeBytes    = 4096
	nonceBytes    = 32
	minNonceBytes = 16
)

// SharedMemory is this process's part of the memory that it shares with servers of its host. Streams whose Config has
// it get features by handle, and send large images and features by handle. Goroutines, streams and clients may share
// one. Linux only.
type SharedMemory struct {
	directory string
	owner     *segmentOwner
	// A segment with a secret in it, by which a server sees that it looks into the same directory.
	probe   *monopathv1.SharedMemoryProbe
	uploads *uploadPool
}

// OpenSharedMemory returns shared memory in a directory, which has to be the server's too, and in memory: a tmpfs.
// Empty: /dev/shm. Who opens it closes it, behind the streams that use it.
//
// The error is a *StreamError with the reason TRANSPORT_UNAVAILABLE, where the directory cannot be used.
func OpenSharedMemory(directory string) (*SharedMemory, error) {
	if directory == "" {
		directory = defaultSharedMemoryDirectory
	}
	sweep(directory)
	owner, err := newSegmentOwner(directory)
	if err != nil {
		return nil, unusableDirectory(directory, err)
	}
	segment, err := owner.create(probeBytes)
	if err == nil {
		_, err = rand.Read(segment.memory[:nonceBytes])
	}
	if err != nil {
		owner.close()
		return nil, unusableDirectory(directory, err)
	}
	nonce := append([]byte{}, segment.memory[:nonceBytes]...)
	// Servers read it through its file.
	unmap(segment.memory)
	probe := &monopathv1.SharedMemoryProbe{Name: segment.name, Nonce: nonce}
	return &SharedMemory{directory: directory, owner: owner, probe: probe, uploads: newUploadPool(owner)}, nil
}

// Close takes this process's segments away. Results in shared memory stay readable until they are released. Harmless
// when repeated.
func (m *SharedMemory) Close() {
	m.owner.close()
	m.uploads.close()
}

// checkOffer returns an error unless the server's segment is found, with the server's secret in it.
func (m *SharedMemory) checkOffer(offer *monopathv1.SharedMemoryOffer) error {
	probe := offer.GetProbe()
	if len(probe.GetNonce()) < minNonceBytes {
		return protocolError("expected ready with %d bytes or more to find in shared memory, got %d",
			minNonceBytes, len(probe.GetNonce()))
	}
	found, err := readForeign(m.directory, probe.GetName(), len(probe.GetNonce()))
	if err == nil && !bytes.Equal(found, probe.GetNonce()) {
		err = errors.New("expected the server's nonce in its segment, got other bytes")
	}
	if err == nil {
		return nil
	}
	return transportUnavailable(err, fmt.Sprintf(
		"expected the server's shared memory in %s, got none (%v). Client and server have to run on one host, as one "+
			"user, and see the same directory: containers need --ipc (and --shm-size) or a volume, which the client names "+
			"in OpenSharedMemory; without that leave SharedMemory out of the Config", m.directory, err))
}

// lease leases what a handle leads to. tell is called when the memory is released.
func (m *segmentMappings) lease(handle *monopathv1.SharedMemoryHandle, tell func()) (*lease, error) {
	mapped, features, err := m.take(handle)
	switch {
	case err == nil:
		return newLease(features, func() { m.takeBack(mapped) }, tell), nil
	case isOutOfRoom(err):
		return nil, &StreamError{
			Code:    codes.ResourceExhausted,
			Message: fmt.Sprintf("expected room to map another segment, got none (%v); hold fewer results at a time", err),
			cause:   err,
		}
	default:
		return nil, protocolError("expected a handle of shared memory that can be mapped, got one that cannot: %v", err)
	}
}

func unusableDirectory(directory string, err error) error {
	var atPath *fs.PathError
	if errors.As(err, &atPath) {
		err = atPath.Err
	}
	return transportUnavailable(err, fmt.Sprintf(
		"expected a directory for shared memory that this process can write to, got %s (%v)", directory, err))
}

// transportUnavailable returns the error of a stream whose transport cannot be used; the server's own refusal is the
// same.
func transportUnavailable(cause error, message string) error {
	return &StreamError{
		Code: codes.FailedPrecondition, Reason: "TRANSPORT_UNAVAILABLE", Message: message, cause: cause,
	}
}
