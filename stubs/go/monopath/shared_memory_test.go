package monopath

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func TestFeaturesLieInTheServersMemoryUntilTheyAreReleased(t *testing.T) {
	server := newMemoryServer(t)
	features := bytes.Repeat([]byte("features"), 5000)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place(features, 7)); err != nil {
			return err
		}
		if err := receiveRelease(call, 1); err != nil {
			return err
		}
		return serveEnd(call, 1)
	})
	result := sendOne(t, stream)
	err := result.View(func(seen []byte) error {
		if !bytes.Equal(seen, features) || cap(seen) != len(features) {
			t.Errorf("expected the %d bytes of the segment, got %d with room for %d", len(features), len(seen), cap(seen))
		}
		return io.ErrUnexpectedEOF
	})
	if err != io.ErrUnexpectedEOF {
		t.Errorf("expected the error of the reader, got %v", err)
	}
	if copied, err := result.Bytes(); err != nil || !bytes.Equal(copied, features) {
		t.Errorf("expected a copy, got %d bytes and %v", len(copied), err)
	}
	if values, err := result.Float32s(); err != nil || len(values) != len(features)/4 {
		t.Errorf("expected %d numbers, got %d and %v", len(features)/4, len(values), err)
	}
	folder := server.own.directory
	if !result.InSharedMemory() || result.Features != nil || mappingCount(t, folder) != 1 {
		t.Errorf("expected features in shared memory alone, got %d bytes", len(result.Features))
	}
	other := result
	other.Release()
	result.Release()
	// A copy of the result is released with it, and nothing of either is to be read any more.
	for _, released := range []Result[CPUImage]{result, other} {
		if err := released.View(func([]byte) error { return nil }); err != ErrReleased {
			t.Errorf("expected ErrReleased, got %v", err)
		}
		if data, err := released.Bytes(); data != nil || err != ErrReleased {
			t.Errorf("expected ErrReleased, got %d bytes and %v", len(data), err)
		}
		if values, err := released.Float32s(); values != nil || err != ErrReleased {
			t.Errorf("expected ErrReleased, got %d numbers and %v", len(values), err)
		}
	}
	// The server ends badly where a second release came.
	if _, err := stream.Finish(); err != nil || mappingCount(t, folder) != 0 {
		t.Fatalf("expected a good end and no mapping, got %v", err)
	}
}

func TestWhoReadsKeepsTheMemoryUntilTheEnd(t *testing.T) {
	server := newMemoryServer(t)
	features := bytes.Repeat([]byte("features"), 5000)
	readAll := make(chan struct{})
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place(features, 1)); err != nil {
			return err
		}
		if err := receiveRelease(call, 1); err != nil {
			return err
		}
		select {
		case <-readAll:
		default:
			t.Error("expected the release behind the last reader, got it before")
		}
		return serveEnd(call, 1)
	})
	result := sendOne(t, stream)
	err := result.View(func(outer []byte) error {
		err := result.View(func(inner []byte) error {
			result.Release()
			if !bytes.Equal(inner, features) {
				t.Error("expected the features, got other bytes")
			}
			return nil
		})
		if !bytes.Equal(outer, features) {
			t.Error("expected the features still, got other bytes")
		}
		close(readAll)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Finish(); err != nil || mappingCount(t, server.own.directory) != 0 {
		t.Fatalf("expected a good end and no mapping, got %v", err)
	}
}

func TestWritingToFeaturesStaysThisProcesssOwn(t *testing.T) {
	server := newMemoryServer(t)
	handle := server.place([]byte("features"), 1)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, handle); err != nil {
			return err
		}
		return serveEnd(call, 1)
	})
	result := sendOne(t, stream)
	err := result.View(func(features []byte) error {
		copy(features, "scribble")
		return nil
	})
	content, readErr := os.ReadFile(filepath.Join(server.own.directory, handle.GetName()))
	if err != nil || readErr != nil || string(content[serverHeaderBytes:]) != "features" {
		t.Errorf("expected the server's bytes as they were, got %q, %v and %v", content[serverHeaderBytes:], err, readErr)
	}
}

func TestFeaturesStayReadableBehindEverybodysEnd(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place([]byte("features"), 1)); err != nil {
			return err
		}
		return serveEnd(call, 1)
	})
	result := sendOne(t, stream)
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
	server.own.Close()
	server.config.SharedMemory.Close()
	if names := fileNames(t, server.own.directory); len(names) > 0 {
		t.Errorf("expected an empty folder, got %v", names)
	}
	if data, err := result.Bytes(); err != nil || string(data) != "features" {
		t.Errorf("expected the features, got %q and %v", data, err)
	}
	result.Release()
	if _, err := result.Bytes(); err != ErrReleased {
		t.Errorf("expected ErrReleased, got %v", err)
	}
}

func TestForgottenFeaturesAreReleasedByTheCollector(t *testing.T) {
	server := newMemoryServer(t)
	released := make(chan struct{})
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place([]byte("features"), 1)); err != nil {
			return err
		}
		if err := receiveRelease(call, 1); err != nil {
			return err
		}
		close(released)
		return serveEnd(call, 1)
	})
	if result := sendOne(t, stream); !result.InSharedMemory() {
		t.Fatal("expected features in shared memory, got others")
	}
	for deadline := time.Now().Add(testTimeout); ; {
		runtime.GC()
		select {
		case <-released:
		default:
			if time.Now().Before(deadline) {
				runtime.Gosched()
				continue
			}
			t.Fatal("expected a release, got none")
		}
		break
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestFeaturesThatNobodyTakesAreNotKept(t *testing.T) {
	for name, end := range map[string]func(*Stream[CPUImage]){
		"close":  func(stream *Stream[CPUImage]) { stream.Close() },
		"finish": func(stream *Stream[CPUImage]) { stream.Finish() },
	} {
		server := newMemoryServer(t)
		ended := make(chan struct{})
		stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
			defer close(ended)
			if err := server.open(call); err != nil {
				return err
			}
			if err := server.completeByHandle(call, server.place([]byte("features"), 1)); err != nil {
				return err
			}
			// This one has no end, and the next one comes when nobody takes results any more.
			second, err := receiveItem(call)
			if err != nil {
				return err
			}
			if err := sendAll(call, planOf(2, 2), handleOf(2, server.place([]byte("features"), 2))); err != nil {
				return err
			}
			if _, err := receiveItem(call); err != nil {
				return err
			}
			if err := sendAll(call, completionOf(second.GetId())); err != nil {
				return err
			}
			return call.Send(summaryOf(2, 0))
		})
		for count := 0; count < 2; count++ {
			if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
				t.Fatal(err)
			}
		}
		awaitMappings(t, server.own.directory, 2)
		end(stream)
		<-ended
		awaitMappings(t, server.own.directory, 0)
		if t.Failed() {
			t.Fatalf("with %s", name)
		}
	}
}

// awaitMappings waits until this process has as many segments of a folder mapped.
func awaitMappings(t *testing.T, folder string, count int) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); mappingCount(t, folder) != count; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("expected %d mappings, got %d", count, mappingCount(t, folder))
		}
	}
}

func TestFeaturesOfAnItemThatFailsAfterAllAreReleased(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if _, err := receiveItem(call); err != nil {
			return err
		}
		err := sendAll(call, planOf(1, 2), handleOf(1, server.place([]byte("features"), 1)),
			errorOf(1, monopathv1.ItemErrorReason_ITEM_ERROR_REASON_CANCELLED))
		if err != nil {
			return err
		}
		if err := receiveRelease(call, 1); err != nil {
			return err
		}
		if item, err := receiveItem(call); err != nil || item != nil {
			return err
		}
		return call.Send(summaryOf(0, 1))
	})
	result := sendOne(t, stream)
	if _, err := result.Bytes(); err == nil || err != error(result.Err) || result.InSharedMemory() {
		t.Errorf("expected the item's error, got %v", err)
	}
	result.Release()
	if _, err := stream.Finish(); err != nil || mappingCount(t, server.own.directory) != 0 {
		t.Fatalf("expected a good end and no mapping, got %v", err)
	}
}

func TestAReleaseComesBeforeWhatIsSentBehindIt(t *testing.T) {
	server := newMemoryServer(t)
	const count = 50
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		handle := server.place([]byte("features"), 1)
		for id := int32(1); id <= count; id++ {
			if err := server.completeByHandle(call, handle); err != nil {
				return err
			}
			if err := receiveRelease(call, id); err != nil {
				return err
			}
		}
		return serveEnd(call, count)
	})
	for id := 1; id <= count; id++ {
		result := sendOne(t, stream)
		result.Release()
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestAnItemThatComesInChunksAfterAllIsCounted(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if _, err := receiveItem(call); err != nil {
			return err
		}
		err := sendAll(call, planOf(1, 2), chunkOf(1, 0, []byte("feat")), chunkOf(1, 4, []byte("ures")), completionOf(1))
		if err != nil {
			return err
		}
		if item, err := receiveItem(call); err != nil || item != nil {
			return err
		}
		summary := summaryOf(1, 0)
		summary.GetSummary().FallbackCount = 1
		return call.Send(summary)
	})
	result := sendOne(t, stream)
	data, err := result.Bytes()
	if err != nil || string(data) != "features" || string(result.Features) != "features" || result.InSharedMemory() {
		t.Errorf("expected features in messages, got %q and %v", data, err)
	}
	result.Release()
	if summary, err := stream.Finish(); err != nil || summary.GetFallbackCount() != 1 {
		t.Fatalf("expected one item to be counted, got %v and %v", summary, err)
	}
}

func TestAReleaseGoesToTheStreamThatTheFeaturesCameFrom(t *testing.T) {
	server := newMemoryServer(t)
	first := func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place([]byte("first..."), 1)); err != nil {
			return err
		}
		if err := call.Send(goaway()); err != nil {
			return err
		}
		return serveEnd(call, 1)
	}
	second := func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if err := server.completeByHandle(call, server.place([]byte("second.."), 1)); err != nil {
			return err
		}
		if err := receiveRelease(call, 2); err != nil {
			return err
		}
		return serveEnd(call, 1)
	}
	stream := mustOpenCPU(t, server.config, first, second)
	earlier, later := sendOne(t, stream), sendOne(t, stream)
	// It is the end of its stream which gives this one's memory back.
	earlier.Release()
	if data, err := later.Bytes(); err != nil || string(data) != "second.." {
		t.Errorf("expected the features of the new stream, got %q and %v", data, err)
	}
	later.Release()
	if summary, err := stream.Finish(); err != nil || summary.GetCompletedCount() != 2 {
		t.Fatalf("expected the sum of both streams, got %v and %v", summary, err)
	}
}
