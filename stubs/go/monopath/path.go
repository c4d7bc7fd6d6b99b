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
	release      func(id int32) proto.Message
	receive      func(grpc.ClientStream) ([]message, error)
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
	release: func(id int32) proto.Message {
		payload := &monopathv1.StreamDeferredCpuRequest_Release{Release: &monopathv1.Release{Id: id}}
		return &monopathv1.StreamDeferredCpuRequest{Payload: payload}
	},
	receive: receiveMessages[
		*monopathv1.DeferredCpuFeatures, *monopathv1.DeferredCpuCompletion,
		*monopathv1.StreamDeferredCpuResponseGroup, monopathv1.StreamDeferredCpuResponse,
	],
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
	release: func(id int32) proto.Message {
		payload := &monopathv1.StreamDeferredCudaRequest_Release{Release: &monopathv1.Release{Id: id}}
		return &monopathv1.StreamDeferredCudaRequest{Payload: payload}
	},
	receive: receiveMessages[
		*monopathv1.DeferredCudaFeatures, *monopathv1.DeferredCudaCompletion,
		*monopathv1.StreamDeferredCudaResponseGroup, monopathv1.StreamDeferredCudaResponse,
	],
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
	release: func(id int32) proto.Message {
		payload := &monopathv1.StreamLocalRequest_Release{Release: &monopathv1.Release{Id: id}}
		return &monopathv1.StreamLocalRequest{Payload: payload}
	},
	receive: receiveMessages[
		*monopathv1.LocalFeatures, *monopathv1.LocalCompletion,
		*monopathv1.StreamLocalResponseGroup, monopathv1.StreamLocalResponse,
	],
}
