package monopath

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// monopathProgram returns the command line program, which has the server. Tests that need it are skipped without it.
func monopathProgram(t *testing.T) string {
	t.Helper()
	program := os.Getenv("MONOPATH_BIN")
	if program == "" {
		program = filepath.Join("..", "..", "..", ".venv", "bin", "monopath")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("expected the monopath program, for its server, got: %v; set MONOPATH_BIN", err)
	}
	return program
}

// startReal runs a server for as long as the test takes, and returns its address.
func startReal(t *testing.T, program string, options ...string) string {
	t.Helper()
	arguments := []string{"serve", "--address", "127.0.0.1:0", "--cuda", "off", "--workers", "1"}
	server := exec.Command(program, append(arguments, options...)...)
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("expected the server to end with exit code 0, got: %v", err)
		}
	})
	// Written when it is ready.
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		t.Fatalf("expected a line with the server's address, got %q", line)
	}
	return address
}

// pictureFiles writes two pictures, and a file that is none.
func pictureFiles(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	picture := image.NewNRGBA(image.Rect(0, 0, 197, 123))
	for y := 0; y < 123; y++ {
		for x := 0; x < 197; x++ {
			picture.Set(x, y, color.NRGBA{R: uint8(x * y), G: uint8(x ^ y), B: uint8(3*x + y), A: 255})
		}
	}
	var files []string
	for name, write := range map[string]func(*bytes.Buffer) error{
		"1.png": func(file *bytes.Buffer) error { return png.Encode(file, picture) },
		"2.jpg": func(file *bytes.Buffer) error { return jpeg.Encode(file, picture, nil) },
		"3.gif": func(file *bytes.Buffer) error { _, err := file.WriteString("GIF89a, but no more of it"); return err },
	} {
		var content bytes.Buffer
		if err := write(&content); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	return files
}

// A printedResult is a line of `monopath preprocess --json`.
type printedResult struct {
	Label      string   `json:"label"`
	GridThw    []uint32 `json:"grid_thw"`
	TokenCount uint32   `json:"token_count"`
	SHA256     string   `json:"sha256"`
	Error      *struct {
		Reason string `json:"reason"`
	} `json:"error"`
}

// preprocessInPython returns what the Python client prints for the same files, by label.
func preprocessInPython(t *testing.T, program, address string, files []string) map[string]printedResult {
	t.Helper()
	arguments := []string{"preprocess", "--json", "--server", address, "--preset", "kimi-k3", "--dtype", "bfloat16"}
	output, err := exec.Command(program, append(arguments, files...)...).Output()
	var failed *exec.ExitError
	// 1: an image failed, as one of these has to.
	if !errors.As(err, &failed) || failed.ExitCode() != 1 {
		t.Fatalf("expected exit code 1, got %v", err)
	}
	printed := map[string]printedResult{}
	for _, line := range strings.Split(strings.TrimSpace(string(output)), "\n") {
		var one printedResult
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		printed[one.Label] = one
	}
	return printed
}

func dialReal(t *testing.T, address string) *Client {
	t.Helper()
	client, err := Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestARealServerGivesTheBytesThatThePythonClientGets(t *testing.T) {
	program := monopathProgram(t)
	address := startReal(t, program)
	files := pictureFiles(t)
	expected := preprocessInPython(t, program, address, files)
	client := dialReal(t, address)
	config := Config{Processor: Preset("kimi-k3"), DataType: BFloat16, Order: AsSent, ChunkBytes: 4096}
	stream, err := client.DeferredCPU(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	images := func(yield func(CPUImage) bool) {
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			if !yield(CPUImage{Label: file, Encoded: content}) {
				return
			}
		}
	}
	var done []Result[CPUImage]
	_, err = stream.Map(images, func(result Result[CPUImage]) error {
		want := expected[result.Label]
		if result.Err != nil {
			if want.Error == nil || result.Err.Reason.String() != "ITEM_ERROR_REASON_"+want.Error.Reason {
				t.Errorf("expected %v of %s, got %v", want, result.Label, result.Err)
			}
			return nil
		}
		done = append(done, result)
		grid := result.Plan.GetGridThw()
		digest := sha256.Sum256(result.Features)
		if hex.EncodeToString(digest[:]) != want.SHA256 || result.Plan.GetTokenCount() != want.TokenCount ||
			grid.GetH() != want.GridThw[1] || grid.GetW() != want.GridThw[2] {
			t.Errorf("expected %v, got %x with %v", want, digest, result.Plan)
		}
		return nil
	})
	if err != nil || len(done) != 2 || len(expected) != 3 {
		t.Fatalf("expected two good results of three, got %d and %v", len(done), err)
	}
	summary, err := stream.Finish()
	if err != nil || summary.GetCompletedCount() != 2 || summary.GetFailedCount() != 1 {
		t.Fatalf("expected a summary of all, got %v and %v", summary, err)
	}
	checkLocal(t, client, config, done)
}

func TestARealServerGivesTilesAndImagesOfOneSize(t *testing.T) {
	program := monopathProgram(t)
	address := startReal(t, program)
	client := dialReal(t, address)
	picture, err := os.ReadFile(pictureFiles(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	for preset, isOfItsKind := range map[string]func(*monopathv1.ImagePlan) bool{
		"internvl2.5":   func(plan *monopathv1.ImagePlan) bool { return plan.GetTileGrid().GetColumns() > 0 },
		"clip-vit-l-14": func(plan *monopathv1.ImagePlan) bool { return plan.GetFixedSize().GetWidthPx() > 0 },
	} {
		config := Config{Processor: Preset(preset), DataType: BFloat16, Order: AsSent}
		stream, err := client.DeferredCPU(testContext(t), config)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if _, err := stream.Send(CPUImage{Encoded: picture}); err != nil {
			t.Fatal(err)
		}
		result, err := stream.Recv()
		if err != nil || result.Err != nil {
			t.Fatalf("expected features, got %v and %v", result.Err, err)
		}
		if PatchGrid(result.Plan) != nil || !isOfItsKind(result.Plan) || result.Plan.GetTokenCount() == 0 {
			t.Errorf("expected a plan of the kind of %s, got %v", preset, result.Plan)
		}
		checkLocal(t, client, config, []Result[CPUImage]{result})
	}
}

// checkLocal sends features back over the path LOCAL, which has to give the same bytes.
func checkLocal(t *testing.T, client *Client, config Config, done []Result[CPUImage]) {
	t.Helper()
	stream, err := client.Local(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	features := func(yield func(LocalFeatures) bool) {
		for _, one := range done {
			spec := one.Plan.GetFeatures()
			if !yield(LocalFeatures{
				OriginalSize: one.Plan.GetOriginalSize(), GridThw: PatchGrid(one.Plan), TileGrid: one.Plan.GetTileGrid(),
				DataType: spec.GetDataType(), Shape: spec.GetShape(), Data: one.Features,
			}) {
				return
			}
		}
	}
	count := 0
	_, err = stream.Map(features, func(result Result[LocalFeatures]) error {
		if result.Err != nil || !bytes.Equal(result.Features, done[count].Features) {
			t.Errorf("expected the same bytes of item %d, got %v", result.ID, result.Err)
		}
		count++
		return nil
	})
	if err != nil || count != len(done) {
		t.Fatalf("expected %d results, got %d and %v", len(done), count, err)
	}
}

func TestARealServerTellsWhatItCanDoAndRefusesTheRest(t *testing.T) {
	client := dialReal(t, startReal(t, monopathProgram(t)))
	capabilities, err := client.GetCapabilities(testContext(t))
	if err != nil || len(capabilities.GetPaths()) != 3 {
		t.Fatalf("expected three paths, got %v and %v", capabilities, err)
	}
	planned, err := client.Plan(testContext(t), &monopathv1.PlanRequest{
		Processor:        Preset("kimi-k3"),
		Images:           []*monopathv1.SizedImage{{Id: 9, Size: &monopathv1.Size{WidthPx: 640, HeightPx: 480}}},
		EncoderRankCount: proto.Uint32(2),
	})
	if err != nil || planned.GetImages()[0].GetId() != 9 || planned.GetImages()[0].GetPlan().GetTokenCount() == 0 {
		t.Fatalf("expected the plan of image 9, got %v and %v", planned, err)
	}
	for reason, open := range map[string]func() error{
		"DEVICE_UNAVAILABLE": func() error {
			_, err := client.DeferredCUDA(testContext(t), Config{Processor: Preset("kimi-k3"), DataType: Float32})
			return err
		},
		"CONFIG_INVALID": func() error {
			_, err := client.DeferredCPU(testContext(t), Config{Processor: Checkpoint("{}")})
			return err
		},
		"REQUEST_INVALID": func() error {
			twice := &monopathv1.SizedImage{Id: 1, Size: &monopathv1.Size{WidthPx: 1, HeightPx: 1}}
			images := []*monopathv1.SizedImage{twice, twice}
			_, err := client.Plan(testContext(t), &monopathv1.PlanRequest{Processor: Preset("kimi-k3"), Images: images})
			return err
		},
	} {
		var refused *StreamError
		if err := open(); !errors.As(err, &refused) || refused.Reason != reason || refused.Code == codes.OK {
			t.Errorf("expected %s, got %v", reason, err)
		} else if strings.HasSuffix(reason, "_INVALID") && len(refused.Violations) == 0 {
			t.Errorf("expected the fields of %s, got none", reason)
		}
	}
}
