package monopath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	deadOwner = "monopath-00112233445566778899aabbccddeeff"
	deadPart  = "-ffeeddccbbaa99887766554433221100"
)

func TestTheSecretIsInAFileOfThisUserAndItsOwnerIsLocked(t *testing.T) {
	folder := sharedFolder(t)
	memory := openMemory(t, folder)
	other := openMemory(t, folder)
	probe := memory.probe
	if !segmentName.MatchString(probe.GetName()) || len(probe.GetNonce()) < minNonceBytes {
		t.Errorf("expected a segment's name and a secret, got %v", probe)
	}
	if other.probe.GetName() == probe.GetName() || string(other.probe.GetNonce()) == string(probe.GetNonce()) {
		t.Error("expected a name and a secret of its own for each, got the same")
	}
	for _, name := range fileNames(t, folder) {
		status, err := os.Lstat(filepath.Join(folder, name))
		if err != nil || status.Mode() != 0o600 {
			t.Errorf("expected a file that this user alone can read, got %v and %v", status.Mode(), err)
		}
	}
	lock, err := os.Open(filepath.Join(folder, memory.owner.name))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if locked, err := lockFile(lock); locked || err != nil {
		t.Errorf("expected a lock that is taken, got %v and %v", locked, err)
	}
	memory.Close()
	memory.Close()
	if locked, err := lockFile(lock); !locked || err != nil {
		t.Errorf("expected a lock that is free, got %v and %v", locked, err)
	}
	if names := fileNames(t, folder); len(names) != 2 || !strings.HasPrefix(names[0], other.owner.name) {
		t.Errorf("expected the files of the other, got %v", names)
	}
	if _, err := memory.owner.create(1); err != ErrClosed {
		t.Errorf("expected ErrClosed, got %v", err)
	}
}

func TestWhatTheDeadLeftIsTakenAwayAndNothingElse(t *testing.T) {
	folder := sharedFolder(t)
	living := openMemory(t, folder)
	orphan := strings.Replace(deadOwner, "00", "99", 1) + deadPart
	kept := []string{"monopath-notes", deadOwner + deadPart + "0", "x" + deadOwner}
	for _, name := range append([]string{deadOwner, deadOwner + deadPart, orphan}, kept...) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Its owner's file may be something that cannot be locked.
	linked := strings.Replace(deadOwner, "00", "88", 1)
	if err := os.Symlink("monopath-notes", filepath.Join(folder, linked)); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, linked, living.owner.name, living.probe.GetName())
	sweep(folder)
	left := map[string]bool{}
	for _, name := range fileNames(t, folder) {
		left[name] = true
	}
	for _, name := range kept {
		if !left[name] {
			t.Errorf("expected %s to be left, got %v", name, left)
		}
	}
	if len(left) != len(kept) {
		t.Errorf("expected %d files to be left, got %v", len(kept), left)
	}
}

func TestAFileThatIsNotTheLockedOneAnyMoreIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "owner")
	file, err := createFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isAt(file, path) {
		t.Error("expected the file at its path, got another")
	}
	if _, err := createFile(path); !os.IsExist(err) {
		t.Errorf("expected no second file at the path, got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if isAt(file, path) {
		t.Error("expected no file at the path, got it")
	}
}
