package monopath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const headerMagic = "monopath"

// openForeign opens a segment that another process made, and returns its size.
func openForeign(directory, name string) (*os.File, uint64, error) {
	if !segmentName.MatchString(name) {
		return nil, 0, errors.New("expected a name of the form monopath-<32 hex>-<32 hex>, got another")
	}
	file, err := os.OpenFile(filepath.Join(directory, name), os.O_RDONLY|dontWait|dontFollow, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("expected a segment that can be read, got none: %w", errors.Unwrap(err))
	}
	status, err := file.Stat()
	if err == nil && !status.Mode().IsRegular() {
		err = errors.New("expected a segment, got something that is not a regular file")
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, uint64(status.Size()), nil
}

// readForeign returns a copy of the first bytes of a segment that another process made.
func readForeign(directory, name string, lengthBytes int) ([]byte, error) {
	file, sizeBytes, err := openForeign(directory, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := checkRange(0, uint64(lengthBytes), sizeBytes); err != nil {
		return nil, err
	}
	found := make([]byte, lengthBytes)
	_, err = io.ReadFull(file, found)
	return found, err
}

// mapForeign maps a segment of a server's up to the end of what a handle leads to: so it begins with its header, and at
// a page. It returns the mapping, to be unmapped, and the handle's bytes in it. The segment has to be in the handle's
// use. An error that isOutOfRoom is this process's own.
func mapForeign(directory string, handle *monopathv1.SharedMemoryHandle) (mapping, data []byte, err error) {
	file, sizeBytes, err := openForeign(directory, handle.GetName())
	if err != nil {
		return nil, nil, err
	}
	// The mapping does not need it.
	defer file.Close()
	offset, length := handle.GetOffsetBytes(), handle.GetLengthBytes()
	if err := checkRange(offset, length, sizeBytes); err != nil {
		return nil, nil, err
	}
	header := append([]byte(headerMagic), make([]byte, 8)...)
	binary.LittleEndian.PutUint64(header[len(headerMagic):], handle.GetGeneration())
	end := offset + length
	if offset < uint64(len(header)) {
		return nil, nil, fmt.Errorf("expected bytes behind a header of %d, got an offset of %d", len(header), offset)
	}
	if mapping, err = mapPrivate(file, int(end)); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(mapping[:len(header)], header) {
		unmap(mapping)
		return nil, nil, fmt.Errorf("expected a segment in use %d, got one in another", handle.GetGeneration())
	}
	return mapping, mapping[offset:end:end], nil
}

func checkRange(offsetBytes, lengthBytes, sizeBytes uint64) error {
	if lengthBytes < 1 || lengthBytes > sizeBytes || offsetBytes > sizeBytes-lengthBytes {
		return fmt.Errorf("expected 1 byte or more within a segment of %d, got %d at offset %d",
			sizeBytes, lengthBytes, offsetBytes)
	}
	return nil
}
