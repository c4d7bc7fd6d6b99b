package monopath

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheStreamInTheReadmeRunsAsItStands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("expected a program in README.md, got none")
	}
	if lines := strings.Count(string(found[1]), "\n"); lines >= 40 {
		t.Errorf("expected a stream in less than 40 lines, got %d", lines)
	}
	folder := t.TempDir()
	source, program := filepath.Join(folder, "stream.go"), filepath.Join(folder, "stream")
	if err := os.WriteFile(source, found[1], 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("expected it to compile, got %v: %s", err, said)
	}
	address := startReal(t, monopathProgram(t))
	files := pictureFiles(t)
	said, err := exec.Command(program, append([]string{address}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("expected exit code 0, got %v: %s", err, said)
	}
	for _, want := range append(files, "IMAGE_", "completed_count:2", "failed_count:1") {
		if !strings.Contains(string(said), want) {
			t.Errorf("expected %q in what it writes, got %s", want, said)
		}
	}
}

func TestTheStubsAreMadeFromTheContractWithoutADiff(t *testing.T) {
	made := t.TempDir()
	said, err := exec.Command(filepath.Join("..", "generate.sh"), made).CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 2 {
		t.Skipf("expected the toolchain that the stubs are made with, got: %s", said)
	}
	if err != nil {
		t.Fatalf("expected stubs, got %v: %s", err, said)
	}
	if said, err := exec.Command("diff", "-r", filepath.Join(made, "monopath", "v1"), "v1").CombinedOutput(); err != nil {
		t.Errorf("expected no diff, got %v: %s", err, said)
	}
}
