package monopath

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const serverHeaderBytes = 4096

// sharedFolder makes a folder in memory, for as long as the test takes.
func sharedFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp(defaultSharedMemoryDirectory, "test-of-go-")
	if err != nil {
		t.Skipf("expected a folder in memory, got: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

func openMemory(t *testing.T, folder string) *SharedMemory {
	t.Helper()
	memory, err := OpenSharedMemory(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(memory.Close)
	return memory
}

// A memoryServer is the fake server's part of shared memory, and the config of a client that shares it.
type memoryServer struct {
	t      *testing.T
	own    *SharedMemory
	config Config
}

func newMemoryServer(t *testing.T) *memoryServer {
	t.Helper()
	folder := sharedFolder(t)
	server := &memoryServer{t: t, own: openMemory(t, folder), config: testConfig()}
	server.config.SharedMemory = openMemory(t, folder)
	return server
}

// place writes features into a segment of the server's, and returns the handle to them.
func (m *memoryServer) place(features []byte, generation uint64) *monopathv1.SharedMemoryHandle {
	segment, err := m.own.owner.create(serverHeaderBytes + len(features))
	if err != nil {
		m.t.Error(err)
		return nil
	}
	unmap(segment.memory)
	return m.placeAgain(segment.name, features, generation)
}

// placeAgain does so in a segment that was used before.
func (m *memoryServer) placeAgain(name string, features []byte, generation uint64) *monopathv1.SharedMemoryHandle {
	file, err := os.OpenFile(filepath.Join(m.own.directory, name), os.O_WRONLY, 0)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	defer file.Close()
	for offset, data := range map[int64][]byte{0: segmentHeader(generation), serverHeaderBytes: features} {
		if _, err := file.WriteAt(data, offset); err != nil {
			m.t.Error(err)
		}
	}
	return &monopathv1.SharedMemoryHandle{
		Name: name, OffsetBytes: serverHeaderBytes, LengthBytes: uint64(len(features)), Generation: generation,
	}
}

func (m *memoryServer) offer() *monopathv1.SharedMemoryOffer {
	return &monopathv1.SharedMemoryOffer{Probe: m.own.probe}
}

// open takes the config, looks for the client's secret, and shows the server's.
func (m *memoryServer) open(call cpuCall) error {
	request, err := call.Recv()
	if err != nil {
		return err
	}
	probe := request.GetConfig().GetOutput().GetSharedMemory().GetProbe()
	found, err := readForeign(m.own.directory, probe.GetName(), len(probe.GetNonce()))
	if err != nil || len(found) < minNonceBytes || string(found) != string(probe.GetNonce()) {
		return status.Errorf(codes.FailedPrecondition, "expected the client's secret, got %v and %v", found, err)
	}
	ready := readyWith(testLimits())
	ready.GetReady().SharedMemory = m.offer()
	return call.Send(ready)
}

// completeByHandle takes the next item and ends it well, with features that a handle leads to.
func (m *memoryServer) completeByHandle(call cpuCall, handle *monopathv1.SharedMemoryHandle) error {
	item, err := receiveItem(call)
	if err != nil {
		return err
	}
	return sendAll(call, planOf(item.GetId(), int(handle.GetLengthBytes())/4), handleOf(item.GetId(), handle),
		completionOf(item.GetId()))
}

func handleOf(id int32, handle *monopathv1.SharedMemoryHandle) *monopathv1.StreamDeferredCpuResponse {
	location := &monopathv1.DeferredCpuFeatures_SharedMemory{SharedMemory: handle}
	features := &monopathv1.DeferredCpuFeatures{Id: id, Location: location}
	payload := &monopathv1.StreamDeferredCpuResponse_Features{Features: features}
	return &monopathv1.StreamDeferredCpuResponse{Payload: payload}
}

// receiveRelease takes the release of an item.
func receiveRelease(call cpuCall, id int32) error {
	request, err := call.Recv()
	if err == nil && request.GetRelease().GetId() != id {
		err = status.Errorf(codes.InvalidArgument, "expected the release of item %d, got %v", id, request)
	}
	return err
}

// mappingCount tells how many segments of a folder this process has mapped.
func mappingCount(t *testing.T, folder string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), folder+"/")
}

// fileNames are the names in a folder.
func fileNames(t *testing.T, folder string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(paths))
	for index, path := range paths {
		names[index] = filepath.Base(path)
	}
	return names
}

func sendOne(t *testing.T, stream *Stream[CPUImage]) Result[CPUImage] {
	t.Helper()
	if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
		t.Fatal(err)
	}
	result, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return result
}
