package monopath

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// noisePicture is a file that is large enough to travel by handle, with features of about 1 MB.
func noisePicture(t *testing.T) []byte {
	t.Helper()
	picture := image.NewNRGBA(image.Rect(0, 0, 420, 420))
	state := uint32(1)
	for index := range picture.Pix {
		state = state*1664525 + 1013904223
		picture.Pix[index] = uint8(state >> 24)
	}
	for y := 0; y < 420; y++ {
		picture.SetNRGBA(y, y, color.NRGBA{A: 255})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	if file.Len() < minUploadBytes {
		t.Fatalf("expected a large file, got %d bytes", file.Len())
	}
	return file.Bytes()
}

func mustStream[I Item](t *testing.T) func(*Stream[I], error) *Stream[I] {
	t.Helper()
	return func(stream *Stream[I], err error) *Stream[I] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stream.Close)
		return stream
	}
}

// roundTrip sends an item, and returns its result, which has to be a good one.
func roundTrip[I Item](t *testing.T, stream *Stream[I], item I) Result[I] {
	t.Helper()
	if _, err := stream.Send(item); err != nil {
		t.Fatal(err)
	}
	result, err := stream.Recv()
	if err != nil || result.Err != nil {
		t.Fatalf("expected features, got %v and %v", result.Err, err)
	}
	return result
}

func mustBytes[I Item](t *testing.T, result Result[I]) []byte {
	t.Helper()
	data, err := result.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestARealServerGivesTheSameBytesInSharedMemory(t *testing.T) {
	folder := sharedFolder(t)
	client := dialReal(t, startReal(t, monopathProgram(t), "--shared-memory-dir", folder))
	picture := noisePicture(t)
	ctx := testContext(t)
	inline := Config{Processor: Preset("kimi-k3"), DataType: BFloat16, Order: AsSent, BypassCache: true}
	shared := inline
	shared.SharedMemory = openMemory(t, folder)

	wanted := roundTrip(t, mustStream[CPUImage](t)(client.DeferredCPU(ctx, inline)), CPUImage{Encoded: picture})
	stream := mustStream[CPUImage](t)(client.DeferredCPU(ctx, shared))
	result := roundTrip(t, stream, CPUImage{Encoded: picture})
	if !result.InSharedMemory() || !bytes.Equal(mustBytes(t, result), wanted.Features) {
		t.Errorf("expected the same %d bytes in shared memory, got others", len(wanted.Features))
	}
	if !bytes.Equal(result.Provenance.GetContentSha256(), wanted.Provenance.GetContentSha256()) {
		t.Error("expected the same image to be read, got another")
	}
	result.Release()
	if summary, err := stream.Finish(); err != nil || summary.GetFallbackCount() != 0 || summary.GetCompletedCount() != 1 {
		t.Errorf("expected a summary of one item, got %v and %v", summary, err)
	}

	pixels := &Pixels{WidthPx: 420, HeightPx: 420, Format: monopathv1.PixelFormat_PIXEL_FORMAT_RGB8,
		Data: bytes.Repeat([]byte{1, 2, 3}, 420*420)}
	wanted = roundTrip(t, mustStream[CPUImage](t)(client.DeferredCPU(ctx, inline)), CPUImage{Pixels: pixels})
	result = roundTrip(t, mustStream[CPUImage](t)(client.DeferredCPU(ctx, shared)), CPUImage{Pixels: pixels})
	if !bytes.Equal(mustBytes(t, result), wanted.Features) {
		t.Error("expected the same bytes of the same pixels, got others")
	}

	plan := wanted.Plan
	checked := roundTrip(t, mustStream[LocalFeatures](t)(client.Local(ctx, shared)), LocalFeatures{
		OriginalSize: plan.GetOriginalSize(), GridThw: PatchGrid(plan), DataType: plan.GetFeatures().GetDataType(),
		Shape: plan.GetFeatures().GetShape(), Data: wanted.Features,
	})
	if !checked.InSharedMemory() || !bytes.Equal(mustBytes(t, checked), wanted.Features) {
		t.Error("expected the same bytes of finished features, got others")
	}
}

func TestARealServerUsesReleasedMemoryForTheNextItem(t *testing.T) {
	folder := sharedFolder(t)
	// Room for the features of one such picture, and not for those of two.
	client := dialReal(t, startReal(t, monopathProgram(t), "--shared-memory-dir", folder,
		"--max-shared-memory-bytes", "1572864"))
	config := Config{Processor: Preset("kimi-k3"), DataType: BFloat16, BypassCache: true, SharedMemory: openMemory(t, folder)}
	stream := mustStream[CPUImage](t)(client.DeferredCPU(testContext(t), config))
	item := CPUImage{Encoded: noisePicture(t)}
	first := roundTrip(t, stream, item)
	without := roundTrip(t, stream, item)
	if !first.InSharedMemory() || without.InSharedMemory() {
		t.Fatalf("expected room for one item of %d bytes, got it for %v and %v",
			first.featureBytes(), first.InSharedMemory(), without.InSharedMemory())
	}
	held := mustBytes(t, first)
	if !bytes.Equal(held, without.Features) {
		t.Error("expected the same bytes in messages, got others")
	}
	segments := fileNames(t, folder)
	first.Release()
	again := roundTrip(t, stream, item)
	if !again.InSharedMemory() || !bytes.Equal(mustBytes(t, again), held) {
		t.Error("expected the next item in the memory that was released, got it elsewhere")
	}
	if later := fileNames(t, folder); len(later) != len(segments) {
		t.Errorf("expected the same segments, got %v behind %v", later, segments)
	}
	again.Release()
	fallbackCount := uint32(1)
	_, err := stream.Map(func(yield func(CPUImage) bool) {
		for count := 0; count < 12 && yield(item); count++ {
		}
	}, func(result Result[CPUImage]) error {
		if !result.InSharedMemory() {
			fallbackCount++
		}
		err := result.View(func(features []byte) error {
			if !bytes.Equal(features, held) {
				t.Errorf("expected the same bytes of item %d, got others", result.ID)
			}
			return nil
		})
		result.Release()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	summary, err := stream.Finish()
	if err != nil || summary.GetFallbackCount() != fallbackCount || summary.GetCompletedCount() != 15 {
		t.Errorf("expected %d items of 15 without room, got %v and %v", fallbackCount, summary, err)
	}
}

func TestARealServerWithAnotherFolderRefusesTheStream(t *testing.T) {
	client := dialReal(t, startReal(t, monopathProgram(t), "--shared-memory-dir", sharedFolder(t)))
	config := Config{Processor: Preset("kimi-k3"), DataType: BFloat16, SharedMemory: openMemory(t, sharedFolder(t))}
	_, err := client.DeferredCPU(testContext(t), config)
	var refused *StreamError
	if !errors.As(err, &refused) || refused.Reason != "TRANSPORT_UNAVAILABLE" {
		t.Errorf("expected TRANSPORT_UNAVAILABLE, got %v", err)
	}
}

// A groupCounter counts the responses of a call that are groups.
type groupCounter struct {
	grpc.ClientStream
	count *atomic.Int32
}

func (c groupCounter) RecvMsg(into any) error {
	err := c.ClientStream.RecvMsg(into)
	if response, ok := into.(*monopathv1.StreamDeferredCpuResponse); ok && response.GetGroup() != nil {
		c.count.Add(1)
	}
	return err
}

func TestARealServerWithATokenAnswersARepeatedImageWithOneGroup(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("a-token-of-the-tests\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := startReal(t, monopathProgram(t), "--token-file", tokens)
	_, err := dialReal(t, address).GetCapabilities(testContext(t))
	var refused *StreamError
	if !errors.As(err, &refused) || refused.Reason != "CREDENTIALS_INVALID" {
		t.Errorf("expected CREDENTIALS_INVALID, got %v", err)
	}
	var groupCount atomic.Int32
	counting := grpc.WithStreamInterceptor(func(
		ctx context.Context, description *grpc.StreamDesc, connection *grpc.ClientConn, method string,
		open grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		call, err := open(ctx, description, connection, method, options...)
		return groupCounter{call, &groupCount}, err
	})
	client := mustDial(t, address, WithTokenFile(tokens), grpc.WithInsecure(), counting)
	config := Config{Processor: Preset("kimi-k3"), DataType: BFloat16}
	stream := mustStream[CPUImage](t)(client.DeferredCPU(testContext(t), config))
	picture, err := os.ReadFile(pictureFiles(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	first := roundTrip(t, stream, CPUImage{Encoded: picture})
	before := groupCount.Load()
	second := roundTrip(t, stream, CPUImage{Encoded: picture})
	if groupCount.Load() != before+1 || !bytes.Equal(first.Features, second.Features) {
		t.Errorf("expected the repeated image in one group, got %d", groupCount.Load()-before)
	}
	if second.Cache != monopathv1.CacheOutcome_CACHE_OUTCOME_HIT {
		t.Errorf("expected features from the cache, got %v", second.Cache)
	}
}
