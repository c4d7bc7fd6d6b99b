package monopath

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const mixedPaths = `package mixed

import "github.com/monopath/monopath/stubs/go/monopath"

func send(
	cpu *monopath.Stream[monopath.CPUImage],
	cuda *monopath.Stream[monopath.CUDAImage],
	local *monopath.Stream[monopath.LocalFeatures],
	done monopath.Result[monopath.CUDAImage],
) {
	var results []monopath.Result[monopath.CPUImage]
	cpu.Send(monopath.CPUImage{})
	cuda.Send(monopath.CUDAImage{})
	local.Send(monopath.LocalFeatures{})
	cpu.Send(monopath.CUDAImage{})           // wrong
	cpu.Send(monopath.LocalFeatures{})       // wrong
	cuda.Send(monopath.CPUImage{})           // wrong
	cuda.Send(monopath.LocalFeatures{})      // wrong
	local.Send(monopath.CPUImage{})          // wrong
	local.Send(monopath.CUDAImage{})         // wrong
	results = append(results, done)          // wrong
	cpu = cuda                               // wrong
	var other *monopath.Stream[[]byte] = nil // wrong
	_, _ = results, other
}
`

// compile compiles a file of Go, and returns what the compiler says.
func compile(t *testing.T, source string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mixed.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("go", "build", "-gcflags=-e", file).CombinedOutput()
	return string(said), err
}

func TestTheCompilerRefusesEachMixOfTwoPaths(t *testing.T) {
	var right []string
	wrong := map[int]bool{}
	for number, line := range strings.Split(mixedPaths, "\n") {
		if strings.HasSuffix(line, "// wrong") {
			wrong[number+1] = true
		} else {
			right = append(right, strings.ReplaceAll(line, "results, other", "results, done"))
		}
	}
	if said, err := compile(t, strings.Join(right, "\n")); err != nil {
		t.Fatalf("expected the rest to compile, got %v: %s", err, said)
	}
	said, err := compile(t, mixedPaths)
	if err == nil {
		t.Fatal("expected errors, got none")
	}
	refused := map[int]bool{}
	// New releases of Go say satisfy, old ones implement.
	refusal := regexp.MustCompile(`mixed\.go:(\d+):\d+: (cannot use|\S+ does not (implement|satisfy) monopath\.Item)`)
	for _, found := range refusal.FindAllStringSubmatch(said, -1) {
		number := 0
		for _, digit := range found[1] {
			number = number*10 + int(digit-'0')
		}
		refused[number] = true
	}
	for number := range wrong {
		if !refused[number] {
			t.Errorf("expected an error in line %d, got none in %s", number, said)
		}
	}
	if len(refused) != len(wrong) {
		t.Errorf("expected errors in %d lines, got %s", len(wrong), said)
	}
}
