package monopath

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// largeBytes is more than goes into a request.
func largeBytes(fill byte) []byte {
	return bytes.Repeat([]byte{fill, 'i', 'm', 'g'}, minUploadBytes/4)
}

// receiveUpload takes the next item, and the handle of its image with the bytes that it leads to.
func (m *memoryServer) receiveUpload(call cpuCall) (*monopathv1.SharedMemoryHandle, []byte, error) {
	item, err := receiveItem(call)
	if err != nil {
		return nil, nil, err
	}
	handle := item.GetImage().GetEncoded().GetSharedMemory()
	if handle == nil {
		handle = item.GetImage().GetPixels().GetSharedMemory()
	}
	if handle == nil {
		return nil, nil, status.Error(codes.InvalidArgument, "expected an image by handle, got one in the request")
	}
	data, err := readForeign(m.own.directory, handle.GetName(), int(handle.GetLengthBytes()))
	return handle, data, err
}

func TestALargeImageTravelsByHandleAndItsSegmentIsUsedAgain(t *testing.T) {
	server := newMemoryServer(t)
	limits := testLimits()
	limits.MaxRequestBytes = 4096
	var handles []*monopathv1.SharedMemoryHandle
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if _, err := call.Recv(); err != nil {
			return err
		}
		ready := readyWith(limits)
		ready.GetReady().SharedMemory = server.offer()
		if err := call.Send(ready); err != nil {
			return err
		}
		for id := int32(1); id <= 3; id++ {
			handle, data, err := server.receiveUpload(call)
			if err != nil {
				return err
			}
			handles = append(handles, handle)
			if !bytes.Equal(data, largeBytes(byte(id))) {
				t.Errorf("expected the bytes of image %d, got others", id)
			}
			if err := sendAll(call, planOf(id, 1), chunkOf(id, 0, data[:4]), completionOf(id)); err != nil {
				return err
			}
		}
		return serveEnd(call, 3)
	})
	for id := byte(1); id <= 3; id++ {
		image := CPUImage{Encoded: largeBytes(id)}
		if id == 2 {
			image = CPUImage{Pixels: &Pixels{Data: largeBytes(id)}}
		}
		if _, err := stream.Send(image); err != nil {
			t.Fatal(err)
		}
		if result, err := stream.Recv(); err != nil || result.Err != nil {
			t.Fatalf("expected features, got %v and %v", result.Err, err)
		}
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
	for index := 1; index < len(handles); index++ {
		if handles[index].GetName() != handles[0].GetName() ||
			handles[index].GetGeneration() <= handles[index-1].GetGeneration() {
			t.Errorf("expected one segment in later and later uses, got %v", handles)
		}
	}
	if len(handles) != 3 || handles[0].GetGeneration() == 0 {
		t.Errorf("expected three handles of uses from 1 on, got %v", handles)
	}
	server.config.SharedMemory.Close()
	if _, err := os.Lstat(filepath.Join(server.own.directory, handles[0].GetName())); !os.IsNotExist(err) {
		t.Errorf("expected no segment of a closed memory, got %v", err)
	}
}

func TestImagesInFlightHaveSegmentsOfTheirOwn(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		names := map[string]bool{}
		for count := 0; count < 2; count++ {
			handle, _, err := server.receiveUpload(call)
			if err != nil {
				return err
			}
			names[handle.GetName()] = true
		}
		if len(names) != 2 {
			t.Errorf("expected two segments, got %v", names)
		}
		for id := int32(1); id <= 2; id++ {
			if err := call.Send(errorOf(id, monopathv1.ItemErrorReason_ITEM_ERROR_REASON_OVERLOADED)); err != nil {
				return err
			}
		}
		if item, err := receiveItem(call); err != nil || item != nil {
			return err
		}
		return call.Send(summaryOf(0, 2))
	})
	for count := 0; count < 2; count++ {
		if _, err := stream.Send(CPUImage{Encoded: largeBytes(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
	if pool := server.config.SharedMemory.uploads; len(pool.idle) != 2 || pool.idleBytes != 2*segmentBytes(minUploadBytes) {
		t.Errorf("expected both segments back, got %d of %d bytes", len(pool.idle), pool.idleBytes)
	}
}

func TestAStreamThatIsLostGivesItsSegmentsBack(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		if _, _, err := server.receiveUpload(call); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "gone")
	})
	if _, err := stream.Send(CPUImage{Encoded: largeBytes(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("expected a stream that is lost, got a result")
	}
	if pool := server.config.SharedMemory.uploads; len(pool.idle) != 1 {
		t.Errorf("expected the segment back, got %d", len(pool.idle))
	}
}

func TestASmallImageAndOneWithoutRoomTravelInTheRequest(t *testing.T) {
	server := newMemoryServer(t)
	stream := mustOpenCPU(t, server.config, func(call cpuCall) error {
		if err := server.open(call); err != nil {
			return err
		}
		return serveRest(call)
	})
	for _, image := range [][]byte{largeBytes(1)[4:], largeBytes(2)} {
		if len(image) >= minUploadBytes {
			// There is no room where nothing can be made any more.
			server.config.SharedMemory.Close()
		}
		if _, err := stream.Send(CPUImage{Encoded: image}); err != nil {
			t.Fatal(err)
		}
		if result, err := stream.Recv(); err != nil || !bytes.Equal(result.Features, image) {
			t.Fatalf("expected the image in the request, got %d bytes and %v", len(result.Features), err)
		}
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestLargeFeaturesOfThisSideTravelByHandle(t *testing.T) {
	server := newMemoryServer(t)
	data := largeBytes(1)
	client := startFake(t, &fakeServer{local: func(call localCall) error {
		if _, err := call.Recv(); err != nil {
			return err
		}
		ready := &monopathv1.Ready{
			Path: local.path, ConfigSha256: configDigest, Limits: testLimits(), SharedMemory: server.offer(),
		}
		err := call.Send(&monopathv1.StreamLocalResponse{Payload: &monopathv1.StreamLocalResponse_Ready{Ready: ready}})
		if err != nil {
			return err
		}
		item, err := call.Recv()
		if err != nil {
			return err
		}
		features, err := call.Recv()
		if err != nil {
			return err
		}
		handle := features.GetItemFeatures().GetSharedMemory()
		if item.GetItem().GetId() != 1 || features.GetItemFeatures().GetId() != 1 || handle == nil {
			t.Errorf("expected item 1 and its features by handle, got %v and %v", item, features)
		}
		if seen, err := readForeign(server.own.directory, handle.GetName(), len(data)); err != nil || !bytes.Equal(seen, data) {
			t.Errorf("expected the features, got %d bytes and %v", len(seen), err)
		}
		return status.Error(codes.Aborted, "seen")
	}})
	stream, err := client.Local(testContext(t), server.config)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Send(LocalFeatures{Data: data}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) == codes.OK {
		t.Fatal("expected the end of the stream, got a result")
	}
}

func TestWhatIsIdleIsBounded(t *testing.T) {
	pool := newUploadPool(openMemory(t, sharedFolder(t)).owner)
	data := make([]byte, maxIdleBytes/4)
	var taken []*upload
	for count := 0; count < 6; count++ {
		taken = append(taken, pool.put(data))
	}
	for _, one := range taken {
		one.end()
		one.end()
	}
	if pool.idleBytes != maxIdleBytes || len(pool.idle) != 4 || pool.idle[3].name == "" {
		t.Errorf("expected %d bytes to be kept, got %d in %d", maxIdleBytes, pool.idleBytes, len(pool.idle))
	}
	pool.close()
	if pool.idleBytes != 0 || len(pool.idle) != 0 {
		t.Errorf("expected nothing to be kept, got %d bytes", pool.idleBytes)
	}
}

func TestSegmentsHaveFewSizesAndLittleWaste(t *testing.T) {
	sizes := map[int]bool{}
	for size := minUploadBytes; size < 2*minUploadBytes; size += 997 {
		rounded := segmentBytes(size)
		if rounded < size || rounded > size+size/4 {
			t.Errorf("expected at most a quarter more than %d, got %d", size, rounded)
		}
		sizes[rounded] = true
	}
	if len(sizes) > 5 {
		t.Errorf("expected few sizes, got %v", sizes)
	}
}
