// Package monopath is a typed client of the monopath service, which turns images into the features that a
// vision-language model's encoder reads.
//
// A stream takes one preprocessing path. Its type says which: a Stream[CPUImage] takes images for the server's CPU, a
// Stream[CUDAImage] images for its GPU, a Stream[LocalFeatures] features that this side has finished. To send an item
// on a stream of another path, or to put results of two paths together, is an error of the compiler.
//
//	client, err := monopath.Dial("127.0.0.1:50051")
//	stream, err := client.DeferredCPU(ctx, monopath.Config{Processor: monopath.Preset("kimi-k3"), DataType: ...})
//	defer stream.Close()
//	count, err := stream.Map(images, func(result monopath.Result[monopath.CPUImage]) error { ... })
//	summary, err := stream.Finish()
//
// Map reads while it writes, sends no more than the server takes, and holds no more results than that either. Send and
// Recv are the lower level. Both go on with a new stream of the server where it asks to move.
//
// A bad image is a value, Result.Err, and neither its stream nor its neighbours notice. A stream that is refused or
// broken ends with a *StreamError.
//
// With a Config's SharedMemory, features stay where the server of the same host wrote them: Result.View lends them, and
// Result.Release gives them back.
//
// The messages themselves are in package monopathv1, whose comments are the contract.
package monopath
