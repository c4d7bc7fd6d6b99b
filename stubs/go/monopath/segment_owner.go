package monopath

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Shared memory is files in a directory such as /dev/shm. Both sides make segments of their own and read the other's.
// The rules hold for clients in every language:
//
//   - A process that makes segments has an owner's file monopath-<owner> with a lock (flock) for as long as it lives;
//     its segments are named monopath-<owner>-<segment>, both parts being 128 random bits in hexadecimal. The lock dies
//     with the process, in whatever way, so anybody may sweep what owners without a lock left behind.
//   - A segment never shrinks, so that whoever has mapped it can always read it, unlinked or not.
//   - Who reads does not trust: names are checked, links are not followed, and only regular files are read.
const namePrefix = "monopath-"

var (
	ownerName   = regexp.MustCompile(`^monopath-[0-9a-f]{32}$`)
	segmentName = regexp.MustCompile(`^(monopath-[0-9a-f]{32})-[0-9a-f]{32}$`)
)

// A segmentOwner makes segments in a directory, and takes all of them away on close. Goroutines may share it.
type segmentOwner struct {
	directory, name string

	mutex sync.Mutex
	// lock is the owner's file, locked. Nil once closed.
	lock  *os.File
	names map[string]bool
}

// An ownSegment is a segment of this process, mapped for writing.
type ownSegment struct {
	owner *segmentOwner
	name  string
	// memory is the whole segment; nil once removed.
	memory []byte
}

func newSegmentOwner(directory string) (*segmentOwner, error) {
	for {
		part, err := randomName()
		if err != nil {
			return nil, err
		}
		name := namePrefix + part
		path := filepath.Join(directory, name)
		lock, err := createFile(path)
		if err != nil {
			return nil, err
		}
		locked, err := lockFile(lock)
		if err != nil {
			os.Remove(path)
			lock.Close()
			return nil, err
		}
		if locked && isAt(lock, path) {
			return &segmentOwner{directory: directory, name: name, lock: lock, names: map[string]bool{}}, nil
		}
		// A sweep came between the two: it found a file without a lock, and takes it away.
		lock.Close()
	}
}

// create makes a segment, with all its memory in place: a write to it cannot fail later.
func (o *segmentOwner) create(sizeBytes int) (*ownSegment, error) {
	part, err := randomName()
	if err != nil {
		return nil, err
	}
	name := o.name + "-" + part
	file, err := o.begin(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	err = reserve(file, int64(sizeBytes))
	var memory []byte
	if err == nil {
		memory, err = mapShared(file, sizeBytes)
	}
	if err != nil {
		o.unlink(name)
		return nil, err
	}
	return &ownSegment{owner: o, name: name, memory: memory}, nil
}

// begin makes the file of a segment. The error is ErrClosed behind close.
func (o *segmentOwner) begin(name string) (*os.File, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.lock == nil {
		return nil, ErrClosed
	}
	file, err := createFile(filepath.Join(o.directory, name))
	if err == nil {
		o.names[name] = true
	}
	return file, err
}

func (o *segmentOwner) isClosed() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.lock == nil
}

// close unlinks all segments. Who has mapped one can still read it. Harmless when repeated.
func (o *segmentOwner) close() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.lock == nil {
		return
	}
	for name := range o.names {
		os.Remove(filepath.Join(o.directory, name))
	}
	o.names = nil
	// Its file goes last: until then a sweep does not take this process for one that is gone.
	os.Remove(filepath.Join(o.directory, o.name))
	o.lock.Close()
	o.lock = nil
}

func (o *segmentOwner) unlink(name string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.names[name] {
		delete(o.names, name)
		os.Remove(filepath.Join(o.directory, name))
	}
}

// remove takes the segment away: nobody can open it any more. Harmless when repeated.
func (s *ownSegment) remove() {
	if s.memory != nil {
		s.owner.unlink(s.name)
		unmap(s.memory)
		s.memory = nil
	}
}

// sweep unlinks what owners that are dead left behind. Live owners' segments are never touched, whatever container or
// host they run in, and what belongs to other users is left alone.
func sweep(directory string) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return
	}
	owned := map[string][]string{}
	for _, entry := range entries {
		name := entry.Name()
		if match := segmentName.FindStringSubmatch(name); match != nil {
			owned[match[1]] = append(owned[match[1]], filepath.Join(directory, name))
		} else if ownerName.MatchString(name) {
			owned[name] = append(owned[name], []string{}...)
		}
	}
	for owner, segments := range owned {
		sweepOwner(filepath.Join(directory, owner), segments)
	}
}

func sweepOwner(path string, segments []string) {
	lock, err := os.OpenFile(path, os.O_RDWR|dontWait|dontFollow, 0)
	if err != nil && !os.IsNotExist(err) {
		return
	}
	if err == nil {
		defer lock.Close()
		if locked, err := lockFile(lock); err != nil || !locked {
			return
		}
		segments = append(segments, path)
	}
	// Without its file, which goes last, they are what an interrupted sweep left.
	for _, segment := range segments {
		os.Remove(segment)
	}
}

func createFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|dontFollow, 0o600)
}

// isAt says that an open file is still the one at its path.
func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, found)
}

// randomName returns 128 random bits in hexadecimal.
func randomName() (string, error) {
	bits := make([]byte, 16)
	_, err := rand.Read(bits)
	return hex.EncodeToString(bits), err
}
