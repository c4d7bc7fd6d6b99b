package monopath

import (
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// A receivedCall is a call whose next response is known.
type receivedCall struct {
	grpc.ClientStream
	response proto.Message
}

func (c receivedCall) RecvMsg(into any) error {
	proto.Merge(into.(proto.Message), c.response)
	return nil
}

func TestAGroupIsReadOnEachPathAsIfEachHadComeAlone(t *testing.T) {
	plan := &monopathv1.ItemPlan{Id: 3}
	failed := &monopathv1.ItemError{Id: 4}
	for name, read := range map[string]func() ([]message, error){
		"DEFERRED_CPU": func() ([]message, error) {
			group := &monopathv1.StreamDeferredCpuResponseGroup{Responses: []*monopathv1.StreamDeferredCpuResponse{
				{Payload: &monopathv1.StreamDeferredCpuResponse_Plan{Plan: plan}},
				chunkOf(3, 0, []byte("features")),
				completionOf(3),
				{},
				{Payload: &monopathv1.StreamDeferredCpuResponse_Error{Error: failed}},
			}}
			payload := &monopathv1.StreamDeferredCpuResponse_Group{Group: group}
			return deferredCPU.receive(receivedCall{response: &monopathv1.StreamDeferredCpuResponse{Payload: payload}})
		},
		"DEFERRED_CUDA": func() ([]message, error) {
			chunk := &monopathv1.DeferredCudaFeatures_Chunk{Chunk: &monopathv1.FeatureChunk{Data: []byte("features")}}
			group := &monopathv1.StreamDeferredCudaResponseGroup{Responses: []*monopathv1.StreamDeferredCudaResponse{
				{Payload: &monopathv1.StreamDeferredCudaResponse_Plan{Plan: plan}},
				{Payload: &monopathv1.StreamDeferredCudaResponse_Features{
					Features: &monopathv1.DeferredCudaFeatures{Id: 3, Location: chunk},
				}},
				{Payload: &monopathv1.StreamDeferredCudaResponse_Completion{
					Completion: &monopathv1.DeferredCudaCompletion{Id: 3},
				}},
				{},
				{Payload: &monopathv1.StreamDeferredCudaResponse_Error{Error: failed}},
			}}
			payload := &monopathv1.StreamDeferredCudaResponse_Group{Group: group}
			return deferredCUDA.receive(receivedCall{response: &monopathv1.StreamDeferredCudaResponse{Payload: payload}})
		},
		"LOCAL": func() ([]message, error) {
			chunk := &monopathv1.LocalFeatures_Chunk{Chunk: &monopathv1.FeatureChunk{Data: []byte("features")}}
			group := &monopathv1.StreamLocalResponseGroup{Responses: []*monopathv1.StreamLocalResponse{
				{Payload: &monopathv1.StreamLocalResponse_Plan{Plan: plan}},
				{Payload: &monopathv1.StreamLocalResponse_Features{
					Features: &monopathv1.LocalFeatures{Id: 3, Location: chunk},
				}},
				{Payload: &monopathv1.StreamLocalResponse_Completion{Completion: &monopathv1.LocalCompletion{Id: 3}}},
				{},
				{Payload: &monopathv1.StreamLocalResponse_Error{Error: failed}},
			}}
			payload := &monopathv1.StreamLocalResponse_Group{Group: group}
			return local.receive(receivedCall{response: &monopathv1.StreamLocalResponse{Payload: payload}})
		},
	} {
		read, err := read()
		if err != nil || len(read) != 5 {
			t.Fatalf("expected five messages of %s, got %v and %v", name, read, err)
		}
		if read[0].plan.GetId() != 3 || string(read[1].features.GetChunk().GetData()) != "features" ||
			read[2].completion.GetId() != 3 || read[3] != (message{}) || read[4].itemError.GetId() != 4 {
			t.Errorf("expected the messages of %s in their order, got %v", name, read)
		}
	}
}

func groupOf(responses ...*monopathv1.StreamDeferredCpuResponse) *monopathv1.StreamDeferredCpuResponse {
	group := &monopathv1.StreamDeferredCpuResponseGroup{Responses: responses}
	return &monopathv1.StreamDeferredCpuResponse{Payload: &monopathv1.StreamDeferredCpuResponse_Group{Group: group}}
}

func TestGroupsAreAskedForAndTheirItemsEndInOrder(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		request, err := call.Recv()
		if err != nil {
			return err
		}
		if !request.GetConfig().GetOutput().GetGroupResponses() {
			t.Error("expected groups to be asked for, got a config without")
		}
		if err := call.Send(readyWith(testLimits())); err != nil {
			return err
		}
		for count := 0; count < 2; count++ {
			if _, err := receiveItem(call); err != nil {
				return err
			}
		}
		err = sendAll(call, groupOf(planOf(1, 2), planOf(2, 2), chunkOf(2, 0, []byte("second.."))),
			groupOf(chunkOf(1, 0, []byte("first...")), completionOf(1), completionOf(2)))
		if err != nil {
			return err
		}
		if item, err := receiveItem(call); err != nil || item != nil {
			return err
		}
		return call.Send(groupOf(goaway(), summaryOf(2, 0)))
	})
	for count := 0; count < 2; count++ {
		if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range []string{"first...", "second.."} {
		result, err := stream.Recv()
		if err != nil || result.ID != int32(index+1) || string(result.Features) != want {
			t.Fatalf("expected %q of item %d, got %q of %d and %v", want, index+1, result.Features, result.ID, err)
		}
	}
	if summary, err := stream.Finish(); err != nil || summary.GetCompletedCount() != 2 {
		t.Fatalf("expected a summary of two, got %v and %v", summary, err)
	}
}

func TestAGroupInAGroupIsAgainstTheProtocol(t *testing.T) {
	stream := mustOpenCPU(t, testConfig(), func(call cpuCall) error {
		if err := open(call, testLimits()); err != nil {
			return err
		}
		if _, err := receiveItem(call); err != nil {
			return err
		}
		return call.Send(groupOf(planOf(1, 2), groupOf(chunkOf(1, 0, []byte("features")), completionOf(1))))
	})
	if _, err := stream.Send(CPUImage{Encoded: []byte("image")}); err != nil {
		t.Fatal(err)
	}
	if result, err := stream.Recv(); !errors.Is(err, ErrProtocol) {
		t.Fatalf("expected the protocol to be broken, got %v and %v", result, err)
	}
}
