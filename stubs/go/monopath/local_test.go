package monopath

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func TestLocalFeaturesGoInChunksThatTheServerTakes(t *testing.T) {
	testLocalFeatures(t, func(localCall) error { return nil })
}

func TestAnItemGoesWholeWhereTheServerAsksToMoveMeanwhile(t *testing.T) {
	testLocalFeatures(t, func(call localCall) error {
		return call.Send(&monopathv1.StreamLocalResponse{Payload: &monopathv1.StreamLocalResponse_Goaway{
			Goaway: &monopathv1.Goaway{Reason: monopathv1.GoawayReason_GOAWAY_REASON_DRAINING},
		}})
	})
}

// testLocalFeatures sends finished features; onItem is what the server does between the announcement and the bytes.
func testLocalFeatures(t *testing.T, onItem func(localCall) error) {
	data := bytes.Repeat([]byte("features"), 1<<16)
	var announced *monopathv1.LocalItem
	var received []byte
	limits := testLimits()
	limits.MaxRequestBytes = 100_000
	send := func(call localCall, response *monopathv1.StreamLocalResponse) {
		if err := call.Send(response); err != nil {
			t.Error(err)
		}
	}
	fake := &fakeServer{local: func(call localCall) error {
		if request, err := call.Recv(); err != nil || request.GetConfig() == nil {
			return status.Errorf(codes.InvalidArgument, "expected a config, got %v and %v", request, err)
		}
		kimi := &monopathv1.KimiConfig{MergeKernelSize: proto.Uint32(2)}
		processor := &monopathv1.ProcessorConfig{Source: &monopathv1.ProcessorConfig_Kimi{Kimi: kimi}}
		ready := &monopathv1.Ready{Path: local.path, ConfigSha256: configDigest, Limits: limits, Processor: processor}
		send(call, &monopathv1.StreamLocalResponse{Payload: &monopathv1.StreamLocalResponse_Ready{Ready: ready}})
		for {
			request, err := call.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if item := request.GetItem(); item != nil {
				announced = item
				if err := onItem(call); err != nil {
					return err
				}
				continue
			}
			chunk := request.GetItemFeatures().GetChunk()
			if proto.Size(request) > 100_000 || int(chunk.GetOffsetBytes()) != len(received) {
				t.Errorf("expected the next chunk, got %d bytes at %d", proto.Size(request), chunk.GetOffsetBytes())
			}
			received = append(received, chunk.GetData()...)
		}
		itemError := &monopathv1.ItemError{Id: 1, Reason: monopathv1.ItemErrorReason_ITEM_ERROR_REASON_FEATURES_MISMATCH}
		send(call, &monopathv1.StreamLocalResponse{Payload: &monopathv1.StreamLocalResponse_Error{Error: itemError}})
		summary := &monopathv1.Summary{AcceptedCount: 1, FailedCount: 1}
		send(call, &monopathv1.StreamLocalResponse{Payload: &monopathv1.StreamLocalResponse_Summary{Summary: summary}})
		return nil
	}}
	stream, err := startFake(t, fake).Local(testContext(t), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	features := LocalFeatures{
		Label:        "mine",
		OriginalSize: &monopathv1.Size{WidthPx: 56, HeightPx: 84},
		GridThw:      &monopathv1.GridThw{T: 1, H: 6, W: 4},
		DataType:     Float32,
		Shape:        []int64{24, 3, 14, 14},
		Data:         data,
	}
	if _, err := stream.Send(features); err != nil {
		t.Fatal(err)
	}
	stream.CloseSend()
	result, err := stream.Recv()
	if err != nil || result.Err == nil || result.Err.Code() != codes.InvalidArgument || result.Label != "mine" {
		t.Fatalf("expected the item's own error, got %v and %v", result, err)
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(received, data) || announced.GetFeatures().GetSizeBytes() != uint32(len(data)) {
		t.Errorf("expected %d bytes, got %d and %v", len(data), len(received), announced)
	}
	if announced.GetTokenCount() != 6 {
		t.Errorf("expected the 6 tokens of 6 by 4 patches, got %d", announced.GetTokenCount())
	}
}

func TestAPathThatTheServerLacksIsRefused(t *testing.T) {
	_, err := startFake(t, &fakeServer{}).DeferredCUDA(testContext(t), testConfig())
	var refused *StreamError
	if !errors.As(err, &refused) || refused.Code != codes.Unimplemented || refused.Retryable() {
		t.Fatalf("expected UNIMPLEMENTED, got %v", err)
	}
}

func TestPlanTellsWhatTheServerSays(t *testing.T) {
	fake := &fakeServer{plan: func(request *monopathv1.PlanRequest) (*monopathv1.PlanResponse, error) {
		if len(request.GetImages()) == 1 {
			return &monopathv1.PlanResponse{Images: []*monopathv1.PlannedImage{{Id: request.GetImages()[0].GetId()}}}, nil
		}
		refused, err := status.New(codes.InvalidArgument, "no images").WithDetails(
			&errdetails.ErrorInfo{Reason: "REQUEST_INVALID", Domain: "monopath.v1"})
		if err != nil {
			return nil, err
		}
		return nil, refused.Err()
	}}
	client := startFake(t, fake)
	response, err := client.Plan(testContext(t), &monopathv1.PlanRequest{Images: []*monopathv1.SizedImage{{Id: 7}}})
	if err != nil || response.GetImages()[0].GetId() != 7 {
		t.Fatalf("expected the plan of image 7, got %v and %v", response, err)
	}
	_, err = client.Plan(testContext(t), &monopathv1.PlanRequest{})
	var refused *StreamError
	if !errors.As(err, &refused) || refused.Reason != "REQUEST_INVALID" {
		t.Fatalf("expected REQUEST_INVALID, got %v", err)
	}
}

func TestTheRestOfAnItemIsNotSentWhereTheStreamIsBroken(t *testing.T) {
	// Far more than flow control lets pass unread.
	data := make([]byte, 64<<20)
	received := make(chan int, 1)
	streams := make(chan *Stream[LocalFeatures], 1)
	fake := &fakeServer{local: func(call localCall) error {
		if _, err := call.Recv(); err != nil {
			return err
		}
		ready := &monopathv1.Ready{Path: local.path, ConfigSha256: configDigest, Limits: testLimits()}
		failure := &monopathv1.StreamFailure{Reason: monopathv1.StreamErrorReason_STREAM_ERROR_REASON_INTERNAL}
		for _, response := range []*monopathv1.StreamLocalResponse{
			{Payload: &monopathv1.StreamLocalResponse_Ready{Ready: ready}},
			{Payload: &monopathv1.StreamLocalResponse_Failure{Failure: failure}},
		} {
			if err := call.Send(response); err != nil {
				return err
			}
			if response.GetReady() == nil {
				break
			}
			// The item was announced, and its bytes are on their way.
			if _, err := call.Recv(); err != nil {
				return err
			}
		}
		stream := <-streams
		waitUntil(t, func() bool {
			stream.mutex.Lock()
			defer stream.mutex.Unlock()
			return stream.session.failure != nil
		})
		count := 0
		for {
			request, err := call.Recv()
			if err == io.EOF {
				received <- count
				return status.Error(codes.Internal, "broken")
			}
			if err != nil {
				return err
			}
			count += len(request.GetItemFeatures().GetChunk().GetData())
		}
	}}
	stream, err := startFake(t, fake).Local(testContext(t), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	streams <- stream
	if _, err := stream.Send(LocalFeatures{DataType: Float32, Shape: []int64{16 << 20}, Data: data}); err == nil {
		t.Error("expected the error that the stream ended with, got none")
	}
	if count := <-received; count >= len(data) {
		t.Errorf("expected less than the whole item, got %d bytes", count)
	}
}
