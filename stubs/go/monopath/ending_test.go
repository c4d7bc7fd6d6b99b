package monopath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// serveThenMove serves a number of items, asks the client to move, and serves what was sent meanwhile.
func serveThenMove(count int) func(cpuCall) error {
	return func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		for served := 0; served < count; served++ {
			item, err := receiveItem(call)
			if err != nil {
				return err
			}
			if err := complete(call, item); err != nil {
				return err
			}
		}
		if err := call.Send(goaway()); err != nil {
			return err
		}
		for accepted := uint32(count); ; accepted++ {
			item, err := receiveItem(call)
			if err != nil {
				return err
			}
			if item == nil {
				return call.Send(summaryOf(accepted, 0))
			}
			if err := complete(call, item); err != nil {
				return err
			}
		}
	}
}

func TestAStreamGoesOnWhereTheServerAsksToMove(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), serveThenMove(2), serveThenMove(1), serveAll)
	var ids []string
	_, err := stream.Map(pictures(200), func(result Result[CPUImage]) error {
		ids = append(ids, fmt.Sprint(result.ID))
		if want := fmt.Sprintf("%08d", result.ID); string(result.Features) != want {
			t.Errorf("expected %q, got %q and %v", want, result.Features, result.Err)
		}
		return nil
	})
	if err != nil || len(ids) != 200 || ids[199] != "200" {
		t.Fatalf("expected 200 results in order, got %v and %v", ids, err)
	}
	summary, err := stream.Finish()
	if err != nil || summary.GetCompletedCount() != 200 {
		t.Fatalf("expected the sum of all streams, got %v and %v", summary, err)
	}
}

func TestAStreamDoesNotGoOnUnderAnotherConfig(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), serveThenMove(1), func(call cpuCall) error {
		if _, err := call.Recv(); err != nil {
			return err
		}
		ready := readyWith(testLimits())
		ready.GetReady().ConfigSha256 = []byte("another one")
		if err := call.Send(ready); err != nil {
			return err
		}
		return serveRest(call)
	})
	_, err := stream.Map(pictures(200), func(Result[CPUImage]) error { return nil })
	if !errors.Is(err, ErrMoved) {
		t.Fatalf("expected ErrMoved, got %v", err)
	}
}

func TestAStreamThatIsOnlyEverAskedToMoveEnds(t *testing.T) {
	moveAtOnce := func(call cpuCall) error {
		if err := sendAll(call, goaway()); err != nil {
			return err
		}
		for {
			if _, err := call.Recv(); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	_, err := openCPU(t, testConfig(), moveAtOnce, moveAtOnce, moveAtOnce, serveAll)
	if !errors.Is(err, ErrMoved) {
		t.Fatalf("expected ErrMoved, got %v", err)
	}
}

func TestARefusedConfigNamesAllWrongFields(t *testing.T) {
	_, err := openCPU(t, testConfig(), func(call cpuCall) error {
		refused, err := status.New(codes.InvalidArgument, "2 fields are wrong").WithDetails(
			&errdetails.ErrorInfo{Reason: "CONFIG_INVALID", Domain: "monopath.v1"},
			&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
				{Field: "processor.kimi.image_std", Description: "Expected it, got none"},
				{Field: "output.order", Description: "Expected an order, got 9"},
			}},
		)
		if err != nil {
			return err
		}
		return refused.Err()
	})
	var refused *StreamError
	if !errors.As(err, &refused) {
		t.Fatalf("expected a StreamError, got %v", err)
	}
	if refused.Code != codes.InvalidArgument || refused.Reason != "CONFIG_INVALID" || refused.Retryable() {
		t.Errorf("expected CONFIG_INVALID, got %#v", refused)
	}
	want := "monopath: CONFIG_INVALID: 2 fields are wrong\n" +
		"  processor.kimi.image_std: Expected it, got none\n  output.order: Expected an order, got 9"
	if refused.Error() != want || len(refused.Violations) != 2 {
		t.Errorf("expected %q, got %q", want, refused.Error())
	}
}

func TestCredentialsThatTheServerDoesNotTakeAreNotTriedAgain(t *testing.T) {
	streams := 0
	stream := mustOpenCPU(t, testConfig(), serveThenMove(1), func(cpuCall) error {
		streams++
		refused, err := status.New(codes.Unauthenticated, "expected a known token").WithDetails(
			&errdetails.ErrorInfo{Reason: "CREDENTIALS_INVALID", Domain: "monopath.v1"})
		if err != nil {
			return err
		}
		return refused.Err()
	}, serveAll)
	_, err := stream.Map(pictures(200), func(Result[CPUImage]) error { return nil })
	var refused *StreamError
	if !errors.As(err, &refused) || refused.Code != codes.Unauthenticated || refused.Reason != "CREDENTIALS_INVALID" {
		t.Fatalf("expected CREDENTIALS_INVALID, got %v", err)
	}
	if refused.Retryable() || streams != 1 {
		t.Errorf("expected one attempt, and no reason for another, got %d and %v", streams, refused.Retryable())
	}
}

func TestAFailureIsToldBehindTheResultsBeforeIt(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		item, err := receiveItem(call)
		if err != nil {
			return err
		}
		failure := &monopathv1.StreamFailure{
			Reason: monopathv1.StreamErrorReason_STREAM_ERROR_REASON_DRAINING, Message: "the server is stopping",
		}
		if err := complete(call, item); err != nil {
			return err
		}
		told := &monopathv1.StreamDeferredCpuResponse_Failure{Failure: failure}
		if err := call.Send(&monopathv1.StreamDeferredCpuResponse{Payload: told}); err != nil {
			return err
		}
		// The client half-closes by itself. Its status has no details, as behind a proxy that drops them.
		for {
			if _, err := call.Recv(); err == io.EOF {
				return status.Error(codes.Unavailable, "gone")
			} else if err != nil {
				return err
			}
		}
	})
	if _, err := stream.Send(CPUImage{Encoded: []byte("file")}); err != nil {
		t.Fatal(err)
	}
	if result, err := stream.Recv(); err != nil || string(result.Features) != "file" {
		t.Fatalf("expected the result before the failure, got %v and %v", result, err)
	}
	_, err := stream.Recv()
	var broken *StreamError
	if !errors.As(err, &broken) || broken.Reason != "DRAINING" || broken.Code != codes.Unavailable || !broken.Retryable() {
		t.Fatalf("expected DRAINING, got %#v", err)
	}
}

func TestTheContextEndsTheStream(t *testing.T) {
	fake := &fakeServer{cpu: make(chan func(cpuCall) error, 1)}
	ended := make(chan error, 1)
	fake.cpu <- func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		<-call.Context().Done()
		ended <- call.Context().Err()
		return call.Context().Err()
	}
	client := startFake(t, fake)
	ctx, cancel := context.WithCancel(testContext(t))
	stream, err := client.DeferredCPU(ctx, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Send(CPUImage{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = stream.Recv()
	var cancelled *StreamError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &cancelled) || cancelled.Code != codes.Canceled {
		t.Errorf("expected context.Canceled, got %v", err)
	}
	if err := <-ended; err != context.Canceled {
		t.Errorf("expected the server to be told, got %v", err)
	}
}

func TestTheContextEndsAStreamThatNoStreamOfTheServerCarries(t *testing.T) {
	fake := &fakeServer{cpu: make(chan func(cpuCall) error, 1)}
	fake.cpu <- serveThenMove(0)
	client := startFake(t, fake)
	ctx, cancel := context.WithCancel(testContext(t))
	stream, err := client.DeferredCPU(ctx, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool {
		stream.mutex.Lock()
		defer stream.mutex.Unlock()
		return stream.session.ended
	})
	cancel()
	if _, err := stream.Recv(); !errors.Is(err, context.Canceled) {
		t.Errorf("expected context.Canceled, got %v", err)
	}
}

func TestALostServerIsUnavailableAndRetryable(t *testing.T) {
	client, err := Dial("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, openError := client.DeferredCPU(testContext(t), testConfig())
	_, planError := client.Plan(testContext(t), &monopathv1.PlanRequest{})
	_, capabilitiesError := client.GetCapabilities(testContext(t))
	for _, err := range []error{openError, planError, capabilitiesError} {
		var lost *StreamError
		if !errors.As(err, &lost) || lost.Code != codes.Unavailable || !lost.Retryable() || lost.Reason != "" {
			t.Errorf("expected UNAVAILABLE, got %v", err)
		}
	}
}

func TestAResponseOfALaterReleaseIsSkipped(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		unknown := &monopathv1.StreamDeferredCpuResponse{}
		unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 29, protowire.VarintType), 1))
		if err := call.Send(unknown); err != nil {
			return err
		}
		return serveAll(call)
	})
	if _, err := stream.Map(pictures(2), func(Result[CPUImage]) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestAGroupThatNobodyAskedForIsSkipped(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		group := &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Group{
			Group: &monopathv1.StreamDeferredCpuResponseGroup{},
		}}
		if err := sendAll(call, group); err != nil {
			return err
		}
		return serveAll(call)
	})
	if _, err := stream.Map(pictures(2), func(Result[CPUImage]) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestAServerThatBreaksTheGrammarIsNotTrusted(t *testing.T) {
	otherPath := planOf(1, 1)
	otherPath.GetPlan().Path = local.path
	otherType := planOf(1, 2)
	otherType.GetPlan().GetPlan().GetFeatures().DataType = BFloat16
	lyingSize := planOf(1, 1)
	lyingSize.GetPlan().GetPlan().GetFeatures().SizeBytes = 8
	handle := &monopathv1.DeferredCpuFeatures{Id: 1, Location: &monopathv1.DeferredCpuFeatures_SharedMemory{}}
	elsewhere := &monopathv1.StreamDeferredCpuResponse{
		Payload: &monopathv1.StreamDeferredCpuResponse_Features{Features: handle},
	}
	otherConfig := completionOf(1)
	otherConfig.GetCompletion().Provenance.ConfigSha256 = []byte("another one")
	one := make([]byte, 4)
	type responses = []*monopathv1.StreamDeferredCpuResponse
	for name, broken := range map[string]struct {
		answer responses
		want   string
	}{
		"ready twice":                     {responses{readyWith(testLimits())}, "expected ready once"},
		"a plan of no item":               {responses{planOf(3, 1)}, "expected a plan of an item without an end"},
		"a plan twice":                    {responses{planOf(1, 1), planOf(1, 1)}, "expected one plan of item 1"},
		"a plan of another path":          {responses{otherPath}, "expected a plan of PREPROCESSING_PATH_DEFERRED_CPU"},
		"a plan of another type":          {responses{otherType}, "expected a plan of DATA_TYPE_FLOAT32"},
		"a plan that contradicts itself":  {responses{lyingSize}, "got 8 for [1 1]"},
		"a plan over the limit":           {responses{planOf(1, 1<<25)}, "at most 67108864, got 134217728"},
		"a plan of nothing":               {responses{planOf(1, 0)}, "expected lengths of 1"},
		"features before a plan":          {responses{chunkOf(1, 0, one)}, "expected features of an item with a plan"},
		"features elsewhere":              {responses{planOf(1, 1), elsewhere}, "got them elsewhere"},
		"a gap between chunks":            {responses{planOf(1, 2), chunkOf(1, 0, one[:2]), chunkOf(1, 4, one)}, "at 2 of 8 bytes, got 4 bytes at 4"},
		"an overlap of chunks":            {responses{planOf(1, 2), chunkOf(1, 0, one), chunkOf(1, 2, one)}, "at 4 of 8 bytes, got 4 bytes at 2"},
		"more features than planned":      {responses{planOf(1, 1), chunkOf(1, 0, make([]byte, 5))}, "at 0 of 4 bytes, got 5 bytes at 0"},
		"a completion without a plan":     {responses{completionOf(1)}, "expected the completion of an item with a plan"},
		"a completion without features":   {responses{planOf(1, 1), completionOf(1)}, "expected 4 bytes of item 1"},
		"a completion of another config":  {responses{planOf(1, 1), chunkOf(1, 0, one), otherConfig}, "with the stream's config"},
		"an item that ends twice":         {responses{errorOf(1, 1), errorOf(1, 1)}, "expected an error of an item without an end"},
		"an end out of turn":              {responses{errorOf(2, 1)}, "expected item 1 to end first"},
		"a summary before items end":      {responses{summaryOf(2, 0)}, "expected 2 more items to end"},
		"a summary that counts otherwise": {responses{errorOf(1, 1), errorOf(2, 1), summaryOf(0, 1)}, "expected a summary of 2 items"},
		"an end without a summary":        {responses{errorOf(1, 1), errorOf(2, 1)}, "expected a summary before the stream's end"},
		"something behind the summary":    {responses{errorOf(1, 1), errorOf(2, 1), summaryOf(0, 2), goaway()}, "expected nothing after the summary"},
	} {
		broken := broken
		t.Run(name, func(t *testing.T) {
			stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
				if err := open(call, testLimits()); err != nil {
					return err
				}
				for count := 0; count < 2; count++ {
					if _, err := receiveItem(call); err != nil {
						return err
					}
				}
				return sendAll(call, broken.answer...)
			})
			for count := 0; count < 2; count++ {
				if _, err := stream.Send(CPUImage{}); err != nil {
					t.Fatal(err)
				}
			}
			summary, err := stream.Finish()
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), broken.want) {
				t.Fatalf("expected ErrProtocol, %s, got %v and %v", broken.want, summary, err)
			}
		})
	}
}

func TestAStreamWithoutReadyFirstIsNotTrusted(t *testing.T) {
	for name, first := range map[string]*monopathv1.StreamDeferredCpuResponse{
		"a plan":    planOf(1, 1),
		"a summary": summaryOf(0, 0),
		"another path": {Payload: &monopathv1.StreamDeferredCpuResponse_Ready{
			Ready: &monopathv1.Ready{Path: local.path},
		}},
	} {
		first := first
		t.Run(name, func(t *testing.T) {
			_, err := openCPU(t, testConfig(), func(call cpuCall) error { return call.Send(first) })
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("expected ErrProtocol, got %v", err)
			}
		})
	}
}

func TestAStreamLeavesNoGoroutineBehind(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	fake := &fakeServer{cpu: make(chan func(cpuCall) error, 4)}
	client := startFake(t, fake)
	for _, end := range []func(*Stream[CPUImage]){
		func(stream *Stream[CPUImage]) {
			if _, err := stream.Finish(); err != nil {
				t.Error(err)
			}
		},
		func(stream *Stream[CPUImage]) { stream.Close() },
		func(*Stream[CPUImage]) { cancel() },
	} {
		fake.cpu <- serveAll
		stream, err := client.DeferredCPU(ctx, testConfig())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Map(pictures(3), func(Result[CPUImage]) error { return nil }); err != nil {
			t.Fatal(err)
		}
		end(stream)
		stacks := make([]byte, 1<<20)
		waitUntil(t, func() bool {
			all := string(stacks[:runtime.Stack(stacks, true)])
			return !strings.Contains(all, ".(*Stream[") && !strings.Contains(all, ".newClientStream")
		})
	}
}
