package monopath

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// defaultSharedMemoryDirectory is where POSIX shared memory is on Linux.
const defaultSharedMemoryDirectory = "/dev/shm"

const (
	dontFollow = syscall.O_NOFOLLOW
	// Of a pipe even the opening would wait for its other end.
	dontWait = syscall.O_NONBLOCK
)

// lockFile locks a file for as long as it is open. It returns false where somebody else has the lock.
func lockFile(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// reserve makes a file of a size, with all its memory in place: without that a full directory is noticed by SIGBUS, at
// the first write.
func reserve(file *os.File, sizeBytes int64) error {
	for {
		if err := syscall.Fallocate(int(file.Fd()), 0, 0, sizeBytes); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// mapShared maps a file of one's own: what is written to the memory, others read.
func mapShared(file *os.File, sizeBytes int) ([]byte, error) {
	return syscall.Mmap(int(file.Fd()), 0, sizeBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// mapPrivate maps somebody else's file: what is written to the memory stays this process's own.
func mapPrivate(file *os.File, sizeBytes int) ([]byte, error) {
	return syscall.Mmap(int(file.Fd()), 0, sizeBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
}

// addressOf returns where a mapping is.
func addressOf(memory []byte) uintptr {
	return uintptr(unsafe.Pointer(&memory[0]))
}

// unmap takes a mapping away. Nobody may look into it any more.
func unmap(memory []byte) {
	// The only error is that of a mapping that is none.
	_ = syscall.Munmap(memory)
}

// isOutOfRoom says that it was for a lack of memory or descriptors.
func isOutOfRoom(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
