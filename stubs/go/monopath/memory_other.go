//go:build !linux

package monopath

import (
	"errors"
	"os"
)

const (
	defaultSharedMemoryDirectory = ""
	dontFollow                   = 0
	dontWait                     = 0
)

var errNotLinux = errors.New("expected Linux for shared memory, got another system")

func lockFile(*os.File) (bool, error)          { return false, errNotLinux }
func reserve(*os.File, int64) error            { return errNotLinux }
func mapShared(*os.File, int) ([]byte, error)  { return nil, errNotLinux }
func mapPrivate(*os.File, int) ([]byte, error) { return nil, errNotLinux }
func addressOf([]byte) uintptr                 { return 0 }
func unmap([]byte)                             {}
func isOutOfRoom(error) bool                   { return false }
