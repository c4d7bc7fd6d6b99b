package monopath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func pictures(count int) func(yield func(CPUImage) bool) {
	return func(yield func(CPUImage) bool) {
		for number := 1; number <= count; number++ {
			if !yield(CPUImage{Label: fmt.Sprint("picture ", number), Encoded: []byte(fmt.Sprintf("%08d", number))}) {
				return
			}
		}
	}
}

func TestMapGivesEachItemItsFeaturesInOrder(t *testing.T) {
	var planned []int32
	config := testConfig()
	config.OnPlan = func(id int32, label string, plan *monopathv1.ImagePlan) {
		if label != fmt.Sprint("picture ", id) || plan.GetTokenCount() != uint32(id) {
			t.Errorf("expected the plan of picture %d, got %q with %v", id, label, plan)
		}
		planned = append(planned, id)
	}
	stream := mustOpenCPU(t, config, serveAll)
	var done []int32
	count, err := stream.Map(pictures(200), func(result Result[CPUImage]) error {
		done = append(done, result.ID)
		if len(planned) < len(done) || planned[len(done)-1] != result.ID {
			t.Errorf("expected the plan of item %d before its result, got %v", result.ID, planned)
		}
		if want := fmt.Sprintf("%08d", result.ID); string(result.Features) != want || result.Err != nil {
			t.Errorf("expected %q, got %q and %v", want, result.Features, result.Err)
		}
		if result.Label != fmt.Sprint("picture ", result.ID) || result.Cache != monopathv1.CacheOutcome_CACHE_OUTCOME_MISS {
			t.Errorf("expected label and cache outcome of item %d, got %q and %v", result.ID, result.Label, result.Cache)
		}
		return nil
	})
	if err != nil || len(done) != 200 || count != 200 {
		t.Fatalf("expected 200 results, got %d, %d and %v", count, len(done), err)
	}
	for index, id := range done {
		if id != int32(index+1) {
			t.Fatalf("expected the order of the items, got %v", done)
		}
	}
	summary, err := stream.Finish()
	if err != nil || summary.GetCompletedCount() != 200 {
		t.Fatalf("expected a summary of 200 items, got %v and %v", summary, err)
	}
}

func TestInterleavedChunksBecomeOneTensorEach(t *testing.T) {
	first, second := bytes.Repeat([]byte("first..."), 100), bytes.Repeat([]byte("second.."), 100)
	config := testConfig()
	config.Order = AsCompleted
	stream := mustOpenCPU(t, config, func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		for count := 0; count < 2; count++ {
			if _, err := receiveItem(call); err != nil {
				return err
			}
		}
		err := sendAll(call, planOf(2, 200), planOf(1, 200), chunkOf(1, 0, first[:300]), chunkOf(2, 0, second[:5]),
			chunkOf(1, 300, first[300:]), chunkOf(2, 5, second[5:]), completionOf(2), completionOf(1))
		if err != nil {
			return err
		}
		return serveEnd(call, 2)
	})
	for count := 0; count < 2; count++ {
		if _, err := stream.Send(CPUImage{Encoded: []byte{}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		id       int32
		features []byte
	}{{2, second}, {1, first}} {
		result, err := stream.Recv()
		if err != nil || result.ID != want.id || !bytes.Equal(result.Features, want.features) {
			t.Fatalf("expected the features of item %d, got item %d and %v", want.id, result.ID, err)
		}
		if cap(result.Features) != len(want.features) {
			t.Errorf("expected one buffer of the plan's %d bytes, got %d", len(want.features), cap(result.Features))
		}
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatalf("expected the good end, got %v", err)
	}
}

// serveEnd waits for the half-close and sends the summary.
func serveEnd(call cpuCall, completed uint32) error {
	if item, err := receiveItem(call); err != nil || item != nil {
		return status.Errorf(codes.InvalidArgument, "expected the half-close, got %v and %v", item, err)
	}
	return call.Send(summaryOf(completed, 0))
}

func TestABadItemIsAValueAndItsNeighboursGoOn(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		for count := 0; count < 3; count++ {
			item, err := receiveItem(call)
			if err != nil {
				return err
			}
			if item.GetId() == 2 {
				err = call.Send(errorOf(2, monopathv1.ItemErrorReason_ITEM_ERROR_REASON_OVERLOADED))
			} else {
				err = complete(call, item)
			}
			if err != nil {
				return err
			}
		}
		if item, err := receiveItem(call); err != nil || item != nil {
			return status.Error(codes.Internal, "expected the half-close")
		}
		return call.Send(summaryOf(2, 1))
	})
	var failed []*ItemError
	_, err := stream.Map(pictures(3), func(result Result[CPUImage]) error {
		if result.Err != nil {
			failed = append(failed, result.Err)
		}
		return nil
	})
	if err != nil || len(failed) != 1 {
		t.Fatalf("expected one bad item, got %v and %v", failed, err)
	}
	found := failed[0]
	if found.ID != 2 || found.Label != "picture 2" || found.Code() != codes.ResourceExhausted || !found.Retryable() {
		t.Errorf("expected a retryable error of item 2, got %#v", found)
	}
	if want := "monopath: item 2 (picture 2): OVERLOADED: expected an image, got none"; found.Error() != want {
		t.Errorf("expected %q, got %q", want, found.Error())
	}
	if _, err := stream.Finish(); err != nil {
		t.Error(err)
	}
}

func TestAnItemWaitsUntilAnotherHasEndedWhereTheServerTakesNoMoreItems(t *testing.T) {
	limits := testLimits()
	limits.MaxUnfinishedItems = 2
	testWaiting(t, testConfig(), limits)
}

func TestAnItemWaitsUntilAnotherHasEndedWhereTheServerTakesNoMoreBytes(t *testing.T) {
	limits := testLimits()
	limits.MaxUnfinishedBytes = 9
	testWaiting(t, testConfig(), limits)
}

func TestAnItemWaitsUntilAnotherHasEndedWhereTheCallerAllowsNoMore(t *testing.T) {
	config := testConfig()
	config.MaxUnfinishedItems = 2
	testWaiting(t, config, testLimits())
}

// testWaiting sends three items of 4 bytes, where two may be in flight.
func testWaiting(t *testing.T, config Config, limits *monopathv1.StreamLimits) {
	t.Helper()
	order := make(chan string, 10)
	config.Order = AsCompleted
	stream := mustOpenCPU(t, config, func(call cpuCall) error {
		if err := open(call, limits); err != nil {
			return err
		}
		for {
			request, err := call.Recv()
			if err == io.EOF {
				return call.Send(summaryOf(2, 1))
			}
			if err != nil {
				return err
			}
			if cancelled := request.GetCancellation(); cancelled != nil {
				order <- fmt.Sprint("cancellation ", cancelled.GetId())
				err = call.Send(errorOf(cancelled.GetId(), monopathv1.ItemErrorReason_ITEM_ERROR_REASON_CANCELLED))
			} else {
				order <- fmt.Sprint("item ", request.GetItem().GetId())
				if request.GetItem().GetId() == 3 {
					err = sendAll(call, planOf(2, 1), chunkOf(2, 0, make([]byte, 4)), completionOf(2),
						planOf(3, 1), chunkOf(3, 0, make([]byte, 4)), completionOf(3))
				}
			}
			if err != nil {
				return err
			}
		}
	})
	for count := 0; count < 2; count++ {
		if _, err := stream.Send(CPUImage{Encoded: []byte("file")}); err != nil {
			t.Fatal(err)
		}
	}
	sent := make(chan error, 1)
	go func() {
		_, err := stream.Send(CPUImage{Encoded: []byte("file")})
		sent <- err
	}()
	// Until the third item waits, or was sent, wrongly.
	waitUntil(t, func() bool {
		stream.mutex.Lock()
		defer stream.mutex.Unlock()
		return stream.sending && !stream.writing || stream.nextID == 4
	})
	if err := stream.Cancel(1); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"item 1", "item 2", "cancellation 1", "item 3"} {
		if got := <-order; got != want {
			t.Fatalf("expected %s, got %s", want, got)
		}
	}
	result, err := stream.Recv()
	if err != nil || result.Err == nil || result.Err.Code() != codes.Canceled {
		t.Fatalf("expected the end of the cancelled item, got %v and %v", result, err)
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
}

func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("expected a condition to come true, got a time-out")
		}
	}
}

func TestMapHoldsNoMoreResultsThanTheServerTakesItems(t *testing.T) {
	limits := testLimits()
	limits.MaxUnfinishedItems = 3
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, limits); err != nil {
			return err
		}
		return serveRest(call)
	})
	taken, given := 0, 0
	images := func(yield func(CPUImage) bool) {
		pictures(50)(func(image CPUImage) bool {
			stream.mutex.Lock()
			taken++
			// Besides those 3, one is in the source's hands, and one's result in the caller's.
			if taken-given > 5 {
				t.Errorf("expected at most 5 items at a time, got %d", taken-given)
			}
			stream.mutex.Unlock()
			return yield(image)
		})
	}
	_, err := stream.Map(images, func(Result[CPUImage]) error {
		// Results stay untaken until no further item comes.
		waitUntil(t, func() bool {
			stream.mutex.Lock()
			defer stream.mutex.Unlock()
			return stream.waitingCount == 3 || taken == 50
		})
		stream.mutex.Lock()
		given++
		stream.mutex.Unlock()
		return nil
	})
	if err != nil || given != 50 {
		t.Fatalf("expected 50 results, got %d and %v", given, err)
	}
}

func TestSendingNeverWaitsForResultsToBeTaken(t *testing.T) {
	// 40 times 1 MiB of replies, far more than flow control lets pass unread.
	stream := mustOpenCPU(t, testConfig(), serveAll)
	large := bytes.Repeat([]byte("abcdefgh"), 1<<17)
	for count := 0; count < 40; count++ {
		if _, err := stream.Send(CPUImage{Encoded: large}); err != nil {
			t.Fatal(err)
		}
	}
	stream.CloseSend()
	for id := int32(1); id <= 40; id++ {
		result, err := stream.Recv()
		if err != nil || result.ID != id || !bytes.Equal(result.Features, large) {
			t.Fatalf("expected the features of item %d, got item %d and %v", id, result.ID, err)
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatalf("expected the good end, got %v", err)
	}
}

func TestAnItemThatIsTooLargeForARequestEndsAloneAndInItsTurn(t *testing.T) {
	limits := testLimits()
	limits.MaxRequestBytes = 1000
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, limits); err != nil {
			return err
		}
		return serveRest(call)
	})
	images := func(yield func(CPUImage) bool) {
		for _, size := range []int{8, 2000, 16} {
			if !yield(CPUImage{Encoded: make([]byte, size)}) {
				return
			}
		}
	}
	var reasons []string
	_, err := stream.Map(images, func(result Result[CPUImage]) error {
		if result.Err == nil {
			reasons = append(reasons, fmt.Sprint(len(result.Features)))
		} else {
			reasons = append(reasons, result.Err.Reason.String())
		}
		return nil
	})
	if got := fmt.Sprint(reasons); err != nil || got != "[8 ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED 16]" {
		t.Fatalf("expected the second item to fail alone, got %s and %v", got, err)
	}
	summary, err := stream.Finish()
	if err != nil || summary.GetAcceptedCount() != 2 {
		t.Fatalf("expected a summary of the two that were sent, got %v and %v", summary, err)
	}
}

func TestAnItemThatCannotBeSentHarmsNothing(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), serveAll)
	for _, image := range []CPUImage{
		{Encoded: []byte("file"), Pixels: &Pixels{}},
		{Encoded: []byte("file"), Label: "\xff"},
		{Encoded: []byte("file"), Traceparent: "\xff"},
	} {
		if id, err := stream.Send(image); err == nil {
			t.Errorf("expected an error for %v, got the id %d", image, id)
		}
	}
	if _, err := stream.Map(pictures(1), func(Result[CPUImage]) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatal(err)
	}
}

func TestMapReturnsTheErrorOfAnItemThatCannotBeSentBehindTheResultsBeforeIt(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), serveAll)
	images := func(yield func(CPUImage) bool) {
		// A careless source goes on after false.
		yield(CPUImage{Encoded: []byte("good")})
		yield(CPUImage{Encoded: []byte("file"), Label: "\xff"})
		yield(CPUImage{Encoded: []byte("late")})
	}
	count, err := stream.Map(images, func(Result[CPUImage]) error { return nil })
	if err == nil || count != 1 {
		t.Fatalf("expected an error behind one result, got %v behind %d", err, count)
	}
	if _, err := stream.Finish(); err != nil {
		t.Fatalf("expected the stream to be whole, got %v", err)
	}
}

func TestMapClosesTheStreamWhereTheCallerWantsNoMore(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), serveAll)
	enough := errors.New("enough")
	if _, err := stream.Map(pictures(1000), func(Result[CPUImage]) error { return enough }); err != enough {
		t.Fatalf("expected the caller's own error, got %v", err)
	}
	if _, err := stream.Send(CPUImage{}); err != ErrClosed {
		t.Errorf("expected ErrClosed, got %v", err)
	}
	if _, err := stream.Recv(); err != ErrClosed {
		t.Errorf("expected ErrClosed, got %v", err)
	}
	stream.Close()
}
