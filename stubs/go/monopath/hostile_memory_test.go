package monopath

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

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
