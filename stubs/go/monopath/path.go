package monopath

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// A pathAdapter is what the rest of the client has to know about the path whose items are of type I.
type pathAdapter[I Item] struct {
	path         monopathv1.PreprocessingPath
	open         func(context.Context, monopathv1.PreprocessingServiceClient) (grpc.ClientStream, error)
	config       func(Config) proto.Message
	prepare      func(I) (outgoing, error)
	cancellation func(id int32) proto.Message
	receive      func(grpc.ClientStream) (message, error)
}

var deferredCPU = pathAdapter[CPUImage]{
	path: monopathv1.PreprocessingPath_PREPROCESSING_PATH_DEFERRED_CPU,
	open: func(ctx context.Context, stub monopathv1.PreprocessingServiceClient) (grpc.ClientStream, error) {
		return stub.StreamDeferredCpu(ctx)
	},
	config: func(config Config) proto.Message {
		payload := &monopathv1.DeferredCpuConfig{Processor: config.Processor, Output: config.output()}
		return &monopathv1.StreamDeferredCpuRequest{Payload: &monopathv1.StreamDeferredCpuRequest_Config{Config: payload}}
	},
	prepare: func(image CPUImage) (outgoing, error) {
		return prepareImage(image, func(id int32, source *monopathv1.ImageSource) proto.Message {
			item := &monopathv1.DeferredCpuItem{
				Id: id, Label: image.Label, Image: source,
				Traceparent: image.Traceparent, ExpectedSha256: image.ExpectedSHA256,
			}
			return &monopathv1.StreamDeferredCpuRequest{Payload: &monopathv1.StreamDeferredCpuRequest_Item{Item: item}}
		})
	},
	cancellation: func(id int32) proto.Message {
		payload := &monopathv1.StreamDeferredCpuRequest_Cancellation{Cancellation: &monopathv1.Cancellation{Id: id}}
		return &monopathv1.StreamDeferredCpuRequest{Payload: payload}
	},
	receive: func(stream grpc.ClientStream) (message, error) {
		response := new(monopathv1.StreamDeferredCpuResponse)
		if err := stream.RecvMsg(response); err != nil {
			return message{}, err
		}
		return readResponse[*monopathv1.DeferredCpuFeatures, *monopathv1.DeferredCpuCompletion](response), nil
	},
}

var deferredCUDA = pathAdapter[CUDAImage]{
	path: monopathv1.PreprocessingPath_PREPROCESSING_PATH_DEFERRED_CUDA,
	open: func(ctx context.Context, stub monopathv1.PreprocessingServiceClient) (grpc.ClientStream, error) {
		return stub.StreamDeferredCuda(ctx)
	},
	config: func(config Config) proto.Message {
		payload := &monopathv1.DeferredCudaConfig{
			Processor: config.Processor, Output: config.output(), DeviceUuid: config.DeviceUUID,
		}
		return &monopathv1.StreamDeferredCudaRequest{Payload: &monopathv1.StreamDeferredCudaRequest_Config{Config: payload}}
	},
	prepare: func(image CUDAImage) (outgoing, error) {
		return prepareImage(image, func(id int32, source *monopathv1.ImageSource) proto.Message {
			item := &monopathv1.DeferredCudaItem{
				Id: id, Label: image.Label, Image: source,
				Traceparent: image.Traceparent, ExpectedSha256: image.ExpectedSHA256,
			}
			return &monopathv1.StreamDeferredCudaRequest{Payload: &monopathv1.StreamDeferredCudaRequest_Item{Item: item}}
		})
	},
	cancellation: func(id int32) proto.Message {
		payload := &monopathv1.StreamDeferredCudaRequest_Cancellation{Cancellation: &monopathv1.Cancellation{Id: id}}
		return &monopathv1.StreamDeferredCudaRequest{Payload: payload}
	},
	receive: func(stream grpc.ClientStream) (message, error) {
		response := new(monopathv1.StreamDeferredCudaResponse)
		if err := stream.RecvMsg(response); err != nil {
			return message{}, err
		}
		return readResponse[*monopathv1.DeferredCudaFeatures, *monopathv1.DeferredCudaCompletion](response), nil
	},
}

var local = pathAdapter[LocalFeatures]{
	path: monopathv1.PreprocessingPath_PREPROCESSING_PATH_LOCAL,
	open: func(ctx context.Context, stub monopathv1.PreprocessingServiceClient) (grpc.ClientStream, error) {
		return stub.StreamLocal(ctx)
	},
	config: func(config Config) proto.Message {
		payload := &monopathv1.LocalConfig{Processor: config.Processor, Output: config.output()}
		return &monopathv1.StreamLocalRequest{Payload: &monopathv1.StreamLocalRequest_Config{Config: payload}}
	},
	prepare: prepareFeatures,
	cancellation: func(id int32) proto.Message {
		payload := &monopathv1.StreamLocalRequest_Cancellation{Cancellation: &monopathv1.Cancellation{Id: id}}
		return &monopathv1.StreamLocalRequest{Payload: payload}
	},
	receive: func(stream grpc.ClientStream) (message, error) {
		response := new(monopathv1.StreamLocalResponse)
		if err := stream.RecvMsg(response); err != nil {
			return message{}, err
		}
		return readResponse[*monopathv1.LocalFeatures, *monopathv1.LocalCompletion](response), nil
	},
}

// A message is what a server says, the same for all paths. At most one of its fields is set; none is, where the
// response is one that this release does not know, which is to be skipped.
type message struct {
	ready      *monopathv1.Ready
	plan       *monopathv1.ItemPlan
	features   featuresMessage
	completion completionMessage
	itemError  *monopathv1.ItemError
	summary    *monopathv1.Summary
	goaway     *monopathv1.Goaway
	failure    *monopathv1.StreamFailure
}

type featuresMessage interface {
	GetId() int32
	GetChunk() *monopathv1.FeatureChunk
}

type completionMessage interface {
	GetId() int32
	GetProvenance() *monopathv1.Provenance
	GetTimings() *monopathv1.ItemTimings
}

// readResponse reads a response of any path. F and C are its own messages for features and completion.
func readResponse[F interface {
	comparable
	featuresMessage
}, C interface {
	comparable
	completionMessage
}](response interface {
	GetReady() *monopathv1.Ready
	GetPlan() *monopathv1.ItemPlan
	GetFeatures() F
	GetCompletion() C
	GetError() *monopathv1.ItemError
	GetSummary() *monopathv1.Summary
	GetGoaway() *monopathv1.Goaway
	GetFailure() *monopathv1.StreamFailure
}) message {
	read := message{
		ready:     response.GetReady(),
		plan:      response.GetPlan(),
		itemError: response.GetError(),
		summary:   response.GetSummary(),
		goaway:    response.GetGoaway(),
		failure:   response.GetFailure(),
	}
	// A nil pointer in an interface would not be nil.
	var noFeatures F
	if features := response.GetFeatures(); features != noFeatures {
		read.features = features
	}
	var noCompletion C
	if completion := response.GetCompletion(); completion != noCompletion {
		read.completion = completion
	}
	return read
}
