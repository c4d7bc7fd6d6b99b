package monopath

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

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

func TestAHandleThatLeadsNowhereEndsTheStream(t *testing.T) {
	const size = 8
	good := func(server *memoryServer) *monopathv1.SharedMemoryHandle {
		return server.place([]byte("features"), 5)
	}
	for name, handleOfServer := range map[string]func(*memoryServer) *monopathv1.SharedMemoryHandle{
		"a path": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.Name = filepath.Join("..", filepath.Base(server.own.directory), handle.GetName())
			return handle
		},
		"another file": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			if err := os.WriteFile(filepath.Join(server.own.directory, "secret"), make([]byte, 8192), 0o600); err != nil {
				t.Error(err)
			}
			return &monopathv1.SharedMemoryHandle{Name: "secret", OffsetBytes: 4096, LengthBytes: size}
		},
		"no file": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			server.own.owner.unlink(handle.GetName())
			return handle
		},
		"a link": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			path := filepath.Join(server.own.directory, handle.GetName())
			if err := os.Rename(path, path+"0"); err != nil {
				t.Error(err)
			}
			if err := os.Symlink(path+"0", path); err != nil {
				t.Error(err)
			}
			return handle
		},
		"a folder": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			server.own.owner.unlink(handle.GetName())
			if err := os.Mkdir(filepath.Join(server.own.directory, handle.GetName()), 0o700); err != nil {
				t.Error(err)
			}
			return handle
		},
		"another use": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.Generation++
			return handle
		},
		"bytes behind the end": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.OffsetBytes++
			return handle
		},
		"an offset beyond all": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.OffsetBytes = math.MaxUint64 - 3
			return handle
		},
		"bytes in the header": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.OffsetBytes = 8
			return handle
		},
		"another length": func(server *memoryServer) *monopathv1.SharedMemoryHandle {
			handle := good(server)
			handle.LengthBytes -= 4
			return handle
		},
	} {
		server := newMemoryServer(t)
		stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
			if err := server.open(call); err != nil {
				return err
			}
			if _, err := receiveItem(call); err != nil {
				return err
			}
			return sendAll(call, planOf(1, size/4), handleOf(1, handleOfServer(server)), completionOf(1))
		})
		if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
			t.Fatal(err)
		}
		if result, err := stream.Recv(); !errors.Is(err, ErrProtocol) {
			t.Errorf("expected the protocol to be broken by %s, got %v and %v", name, result, err)
		}
		if mappingCount(t, server.own.directory) != 0 {
			t.Errorf("expected no mapping with %s, got one", name)
		}
	}
}

func TestFeaturesComeInChunksOrByOneHandle(t *testing.T) {
	server := newMemoryServer(t)
	for name, sent := range map[string]func() []*monopathv1.StreamDeferredCpuResponse{
		"two handles": func() []*monopathv1.StreamDeferredCpuResponse {
			handle := server.place([]byte("features"), 1)
			return []*monopathv1.StreamDeferredCpuResponse{handleOf(1, handle), handleOf(1, handle)}
		},
		"a chunk behind a handle": func() []*monopathv1.StreamDeferredCpuResponse {
			handle := server.place([]byte("features"), 1)
			return []*monopathv1.StreamDeferredCpuResponse{handleOf(1, handle), chunkOf(1, 0, []byte("features"))}
		},
		"a handle behind a chunk": func() []*monopathv1.StreamDeferredCpuResponse {
			handle := server.place([]byte("features"), 1)
			return []*monopathv1.StreamDeferredCpuResponse{chunkOf(1, 0, []byte("feat")), handleOf(1, handle)}
		},
	} {
		stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
			if err := server.open(call); err != nil {
				return err
			}
			if _, err := receiveItem(call); err != nil {
				return err
			}
			return sendAll(call, append([]*monopathv1.StreamDeferredCpuResponse{planOf(1, 2)}, sent()...)...)
		})
		if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, ErrProtocol) {
			t.Errorf("expected the protocol to be broken by %s, got %v", name, err)
		}
		awaitMappings(t, server.own.directory, 0)
	}
}

func TestAHandleOnAStreamOfMessagesIsRefused(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		return server.completeByHandle(call, server.place([]byte("features"), 1))
	})
	if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, ErrProtocol) {
		t.Errorf("expected the protocol to be broken, got %v", err)
	}
}

func TestAServerWhoseSecretIsNotFoundIsRefused(t *testing.T) {
	server := newMemoryServer(t)
	elsewhere := openMemory(t, sharedFolder(t))
	shown := server.own.probe
	for name, probe := range map[string]*monopathv1.SharedMemoryProbe{
		"another folder": elsewhere.probe,
		"another secret": {Name: shown.GetName(), Nonce: elsewhere.probe.GetNonce()},
		"a path":         {Name: "../" + shown.GetName(), Nonce: shown.GetNonce()},
		"more than all":  {Name: shown.GetName(), Nonce: make([]byte, 2*probeBytes)},
	} {
		stream, err := openCPU(t, server.config, func(call cpuCall) error {
			if _, err := call.Recv(); err != nil {
				return err
			}
			ready := readyWith(testLimits())
			ready.GetReady().SharedMemory = &monopathv1.SharedMemoryOffer{Probe: probe}
			return call.Send(ready)
		})
		var refused *StreamError
		if !errors.As(err, &refused) || refused.Reason != "TRANSPORT_UNAVAILABLE" ||
			refused.Code != codes.FailedPrecondition || stream != nil {
			t.Errorf("expected %s to be refused, got %v", name, err)
		}
	}
	// An offer that is none, such as of a server that does not know of shared memory.
	if _, err := openCPU(t, server.config, serveAll); !errors.Is(err, ErrProtocol) {
		t.Errorf("expected the protocol to be broken, got %v", err)
	}
}

func TestAFolderThatCannotBeUsedIsRefused(t *testing.T) {
	memory, err := OpenSharedMemory(filepath.Join(t.TempDir(), "missing"))
	var refused *StreamError
	if memory != nil || !errors.As(err, &refused) || refused.Reason != "TRANSPORT_UNAVAILABLE" ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("expected TRANSPORT_UNAVAILABLE, got %v", err)
	}
	server := newMemoryServer(t)
	server.config.SharedMemory.Close()
	if _, err := openCPU(t, server.config, server.open); err == nil {
		t.Error("expected closed memory to be refused, got a stream")
	}
}
