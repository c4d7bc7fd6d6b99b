package main

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rawCodec passes messages as the bytes that they are on the wire. It has the name of protobuf's, which goes into the
// content type: for the server nothing is different.
type rawCodec struct{}

func (rawCodec) Marshal(message any) ([]byte, error) {
	encoded, ok := message.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("expected a message of type *[]byte, got %T", message)
	}
	return *encoded, nil
}

func (rawCodec) Unmarshal(data []byte, message any) error {
	decoded, ok := message.(*[]byte)
	if !ok {
		return fmt.Errorf("expected a message of type *[]byte, got %T", message)
	}
	// gRPC may use the memory again.
	*decoded = append([]byte{}, data...)
	return nil
}

func (rawCodec) Name() string { return "proto" }

// exchange sends requests as a good client does: it waits for the first response after the first request, and reads
// while it writes. It returns the responses, and the error that the call ended with, nil for OK.
func exchange(
	ctx context.Context, address, method string, streaming bool, requests [][]byte, halfClose bool,
) ([][]byte, error) {
	// Deprecated in new releases, but the only name for it that 1.33 has too; kept throughout 1.x.
	connection, err := grpc.Dial(address, grpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if !streaming {
		if len(requests) != 1 {
			return nil, fmt.Errorf("expected one request of a unary call, got %d", len(requests))
		}
		var response []byte
		if err := connection.Invoke(ctx, method, &requests[0], &response, grpc.ForceCodec(rawCodec{})); err != nil {
			return nil, err
		}
		return [][]byte{response}, nil
	}
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(ctx, description, method, grpc.ForceCodec(rawCodec{}))
	if err != nil {
		return nil, err
	}
	answered := make(chan struct{})
	go write(stream, requests, halfClose, answered)
	return read(stream, answered)
}

// write sends the requests, waiting for the first answer behind the first of them. Where the stream ends meanwhile, its
// status is read at the other side.
func write(stream grpc.ClientStream, requests [][]byte, halfClose bool, answered <-chan struct{}) {
	for index := range requests {
		if err := stream.SendMsg(&requests[index]); err != nil {
			return
		}
		if index == 0 {
			<-answered
		}
	}
	if halfClose {
		// Its error is that of a stream that has ended, which the reader sees as well.
		_ = stream.CloseSend()
	}
}

// read takes all responses to the stream's end, and closes answered behind the first one or the end.
func read(stream grpc.ClientStream, answered chan<- struct{}) ([][]byte, error) {
	var responses [][]byte
	for {
		var response []byte
		err := stream.RecvMsg(&response)
		if len(responses) == 0 {
			close(answered)
		}
		if err == io.EOF {
			return responses, nil
		}
		if err != nil {
			return responses, err
		}
		responses = append(responses, response)
	}
}

// statusOf returns what a call's error says, with the details that came in its trailer.
func statusOf(err error) callStatus {
	ended := status.Convert(err)
	found := callStatus{Code: codeName(ended.Code()), Message: ended.Message(), Violations: []violation{}}
	for _, detail := range ended.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			found.Reason, found.Domain = detail.GetReason(), detail.GetDomain()
		case *errdetails.BadRequest:
			for _, one := range detail.GetFieldViolations() {
				found.Violations = append(found.Violations, violation{one.GetField(), one.GetDescription()})
			}
		}
	}
	return found
}

// codeName returns the name of a status code as gRPC's documentation writes it; Go's own are in another case.
func codeName(code codes.Code) string {
	names := [...]string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return fmt.Sprint(uint32(code))
}
