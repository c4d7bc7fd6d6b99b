package monopath

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const testTimeout = 30 * time.Second

var configDigest = []byte("digest of the config")

// A cpuCall is the server's end of a stream of the path DEFERRED_CPU, and of one of the path LOCAL a localCall.
type (
	cpuCall   = monopathv1.PreprocessingService_StreamDeferredCpuServer
	localCall = monopathv1.PreprocessingService_StreamLocalServer
)

// A fakeServer answers each stream with the next of its scripts.
type fakeServer struct {
	monopathv1.UnimplementedPreprocessingServiceServer
	cpu   chan func(cpuCall) error
	local func(localCall) error
	plan  func(*monopathv1.PlanRequest) (*monopathv1.PlanResponse, error)
}

func (f *fakeServer) StreamDeferredCpu(call cpuCall) error {
	select {
	case script := <-f.cpu:
		return script(call)
	default:
		return status.Error(codes.Unavailable, "no script is left")
	}
}

func (f *fakeServer) StreamLocal(call localCall) error { return f.local(call) }

func (f *fakeServer) Plan(_ context.Context, request *monopathv1.PlanRequest) (*monopathv1.PlanResponse, error) {
	return f.plan(request)
}

// startFake serves the fake on a free port of this host for as long as the test takes.
func startFake(t *testing.T, fake *fakeServer) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	monopathv1.RegisterPreprocessingServiceServer(server, fake)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client, err := Dial(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Stop()
		// A test may end before the server has begun.
		if err := <-served; err != nil && err != grpc.ErrServerStopped {
			t.Errorf("expected the fake server to stop, got: %v", err)
		}
	})
	return client
}

// openCPU opens a stream that the scripts answer, one after another.
func openCPU(t *testing.T, config Config, scripts ...func(cpuCall) error) (*Stream[CPUImage], error) {
	t.Helper()
	queue := make(chan func(cpuCall) error, len(scripts))
	for _, script := range scripts {
		queue <- script
	}
	client := startFake(t, &fakeServer{cpu: queue})
	stream, err := client.DeferredCPU(testContext(t), config)
	if err == nil {
		t.Cleanup(stream.Close)
	}
	return stream, err
}

func mustOpenCPU(t *testing.T, config Config, scripts ...func(cpuCall) error) *Stream[CPUImage] {
	t.Helper()
	stream, err := openCPU(t, config, scripts...)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func testConfig() Config {
	return Config{Processor: Preset("kimi-k3"), DataType: Float32, Order: AsSent}
}

func testLimits() *monopathv1.StreamLimits {
	return &monopathv1.StreamLimits{
		MaxUnfinishedItems: 64, MaxUnfinishedBytes: 1 << 28, MaxFeatureBytes: 1 << 26, MaxRequestBytes: 1 << 26,
	}
}

func readyWith(limits *monopathv1.StreamLimits) *monopathv1.StreamDeferredCpuResponse {
	ready := &monopathv1.Ready{Path: deferredCPU.path, ConfigSha256: configDigest, Limits: limits}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Ready{Ready: ready}}
}

// planOf plans one patch of a number of FLOAT32 elements.
func planOf(id int32, elementCount int) *monopathv1.StreamDeferredCpuResponse {
	plan := &monopathv1.ItemPlan{Id: id, Path: deferredCPU.path, Plan: &monopathv1.ImagePlan{
		TokenCount: uint32(id),
		Features: &monopathv1.TensorSpec{
			DataType: Float32, Shape: []int64{1, int64(elementCount)}, SizeBytes: uint32(elementCount * 4),
		},
	}}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Plan{Plan: plan}}
}

func chunkOf(id int32, offset uint32, data []byte) *monopathv1.StreamDeferredCpuResponse {
	features := &monopathv1.DeferredCpuFeatures{Id: id, Location: &monopathv1.DeferredCpuFeatures_Chunk{
		Chunk: &monopathv1.FeatureChunk{OffsetBytes: offset, Data: data},
	}}
	payload := &monopathv1.StreamDeferredCpuResponse_Features{Features: features}
	return &monopathv1.StreamDeferredCpuResponse{Payload: payload}
}

func completionOf(id int32) *monopathv1.StreamDeferredCpuResponse {
	completion := &monopathv1.DeferredCpuCompletion{
		Id:         id,
		Provenance: &monopathv1.Provenance{Path: deferredCPU.path, ConfigSha256: configDigest},
		Cache:      monopathv1.CacheOutcome_CACHE_OUTCOME_MISS,
	}
	payload := &monopathv1.StreamDeferredCpuResponse_Completion{Completion: completion}
	return &monopathv1.StreamDeferredCpuResponse{Payload: payload}
}

func errorOf(id int32, reason monopathv1.ItemErrorReason) *monopathv1.StreamDeferredCpuResponse {
	itemError := &monopathv1.ItemError{Id: id, Reason: reason, Message: "expected an image, got none"}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Error{Error: itemError}}
}

func summaryOf(completed, failed uint32) *monopathv1.StreamDeferredCpuResponse {
	summary := &monopathv1.Summary{AcceptedCount: completed + failed, CompletedCount: completed, FailedCount: failed}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Summary{Summary: summary}}
}

func goaway() *monopathv1.StreamDeferredCpuResponse {
	payload := &monopathv1.Goaway{Reason: monopathv1.GoawayReason_GOAWAY_REASON_STREAM_AGE}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Goaway{Goaway: payload}}
}

// sendAll sends responses, up to the first that fails.
func sendAll(call cpuCall, responses ...*monopathv1.StreamDeferredCpuResponse) error {
	for _, response := range responses {
		if err := call.Send(response); err != nil {
			return err
		}
	}
	return nil
}

// open takes the config and answers with ready.
func open(call cpuCall, limits *monopathv1.StreamLimits) error {
	request, err := call.Recv()
	if err != nil {
		return err
	}
	if request.GetConfig() == nil {
		return status.Error(codes.InvalidArgument, "expected a config first")
	}
	return call.Send(readyWith(limits))
}

// receiveItem takes the next item. It returns nil at the half-close.
func receiveItem(call cpuCall) (*monopathv1.DeferredCpuItem, error) {
	request, err := call.Recv()
	if err == io.EOF {
		return nil, nil
	}
	if err == nil && request.GetItem() == nil {
		err = status.Errorf(codes.InvalidArgument, "expected an item, got %v", request)
	}
	return request.GetItem(), err
}

// complete ends an item well, with its file's bytes as features; they have to be a multiple of 4.
func complete(call cpuCall, item *monopathv1.DeferredCpuItem) error {
	data := item.GetImage().GetEncoded().GetData()
	return sendAll(call, planOf(item.GetId(), len(data)/4), chunkOf(item.GetId(), 0, data), completionOf(item.GetId()))
}

// serveAll is a good server: it gives each item's bytes back as features, to the half-close.
func serveAll(call cpuCall) error {
	if err := open(call, testLimits()); err != nil {
		return err
	}
	return serveRest(call)
}

func serveRest(call cpuCall) error {
	for count := uint32(0); ; count++ {
		item, err := receiveItem(call)
		if err != nil {
			return err
		}
		if item == nil {
			return call.Send(summaryOf(count, 0))
		}
		if err := complete(call, item); err != nil {
			return err
		}
	}
}
