package monopath

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

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

// mapForeign maps a segment of a server's. An error that isOutOfRoom is this process's own.
func mapForeign(directory, name string) (*mapping, error) {
	file, sizeBytes, err := openForeign(directory, name)
	if err != nil {
		return nil, err
	}
	// The mapping does not need it.
	defer file.Close()
	if sizeBytes < 1 || sizeBytes > math.MaxInt {
		return nil, fmt.Errorf("expected a segment that fits into memory, got one of %d bytes", sizeBytes)
	}
	memory, err := mapPrivate(file, int(sizeBytes))
	if err != nil {
		return nil, err
	}
	return &mapping{name: name, memory: memory}, nil
}

func checkRange(offsetBytes, lengthBytes, sizeBytes uint64) error {
	if lengthBytes < 1 || lengthBytes > sizeBytes || offsetBytes > sizeBytes-lengthBytes {
		return fmt.Errorf("expected 1 byte or more within a segment of %d, got %d at offset %d",
			sizeBytes, lengthBytes, offsetBytes)
	}
	return nil
}
