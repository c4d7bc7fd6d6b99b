package monopath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const (
	headerMagic = "monopath"
	headerBytes = len(headerMagic) + 8
	// What stays mapped without any features in it.
	maxIdleMappedBytes = 128 << 20
)

// segmentMappings are the segments of one stream's server that this process has mapped. Goroutines may share them.
//
// Mapping is what shared memory costs: to map 12 MB, touch them and unmap them takes longer than to read them. A server
// uses its segments again, so mappings are kept for the next item; one that was written to has pages of its own, which
// hide what the server writes later, and is not.
type segmentMappings struct {
	directory string

	mutex sync.Mutex
	// idle are mappings that nobody reads, those that were not used for longest first.
	idle      []*mapping
	idleBytes int
	closed    bool
}

// A mapping is a whole segment, mapped so that writes to it stay this process's own.
type mapping struct {
	name   string
	memory []byte
}

// take returns a mapping of the segment that a handle names, and the handle's bytes in it. The segment has to be in the
// handle's use. An error that isOutOfRoom is this process's own.
func (m *segmentMappings) take(handle *monopathv1.SharedMemoryHandle) (*mapping, []byte, error) {
	mapped := m.takeIdle(handle.GetName())
	if mapped == nil {
		var err error
		if mapped, err = mapForeign(m.directory, handle.GetName()); err != nil {
			return nil, nil, err
		}
	}
	features, err := mapped.bytesOf(handle)
	if err != nil {
		unmap(mapped.memory)
		return nil, nil, err
	}
	return mapped, features, nil
}

func (m *segmentMappings) takeIdle(name string) *mapping {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for index, mapped := range m.idle {
		if mapped.name == name {
			m.idle = append(m.idle[:index], m.idle[index+1:]...)
			m.idleBytes -= len(mapped.memory)
			return mapped
		}
	}
	return nil
}

// takeBack takes a mapping that nobody reads any more.
func (m *segmentMappings) takeBack(mapped *mapping) {
	untouched := mapped.isUntouched()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.closed || !untouched || m.isIdle(mapped.name) {
		unmap(mapped.memory)
		return
	}
	m.idle = append(m.idle, mapped)
	m.idleBytes += len(mapped.memory)
	m.dropIdle(maxIdleMappedBytes)
}

// isIdle says that there is a mapping of the segment already, as where two items were leased the same one. With the mutex
// held.
func (m *segmentMappings) isIdle(name string) bool {
	for _, mapped := range m.idle {
		if mapped.name == name {
			return true
		}
	}
	return false
}

// close keeps nothing from now on. What somebody reads stays mapped until then.
func (m *segmentMappings) close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.closed = true
	m.dropIdle(0)
}

// dropIdle unmaps what was not used for longest. With the mutex held.
func (m *segmentMappings) dropIdle(limitBytes int) {
	for m.idleBytes > limitBytes {
		m.idleBytes -= len(m.idle[0].memory)
		unmap(m.idle[0].memory)
		m.idle = m.idle[1:]
	}
}

// bytesOf returns what a handle leads to, if the segment is in the handle's use.
func (m *mapping) bytesOf(handle *monopathv1.SharedMemoryHandle) ([]byte, error) {
	offset, length := handle.GetOffsetBytes(), handle.GetLengthBytes()
	if err := checkRange(offset, length, uint64(len(m.memory))); err != nil {
		return nil, err
	}
	if offset < uint64(headerBytes) {
		return nil, fmt.Errorf("expected bytes behind a header of %d, got an offset of %d", headerBytes, offset)
	}
	if !bytes.Equal(m.memory[:headerBytes], segmentHeader(handle.GetGeneration())) {
		return nil, fmt.Errorf("expected a segment in use %d, got one in another", handle.GetGeneration())
	}
	end := offset + length
	return m.memory[offset:end:end], nil
}

// isUntouched says that all of it shows what the server writes. False where that cannot be known.
func (m *mapping) isUntouched() bool {
	// From proc_pid_pagemap(5): a page is there, in memory or in swap; it is the file's, and no copy that a write made.
	const present, ofFile = uint64(0b11 << 62), uint64(1 << 61)
	const entryBytes = 8
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return false
	}
	defer pagemap.Close()
	pageBytes := os.Getpagesize()
	entries := make([]byte, (len(m.memory)+pageBytes-1)/pageBytes*entryBytes)
	if _, err := pagemap.ReadAt(entries, int64(addressOf(m.memory))/int64(pageBytes)*entryBytes); err != nil {
		return false
	}
	for ; len(entries) > 0; entries = entries[entryBytes:] {
		if entry := binary.LittleEndian.Uint64(entries); entry&present != 0 && entry&ofFile == 0 {
			return false
		}
	}
	return true
}

// segmentHeader is how a server's segment begins that is in this use.
func segmentHeader(generation uint64) []byte {
	header := make([]byte, headerBytes)
	copy(header, headerMagic)
	binary.LittleEndian.PutUint64(header[len(headerMagic):], generation)
	return header
}
