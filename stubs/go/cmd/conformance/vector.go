package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const serviceName = "PreprocessingService"

// runVector sends the vector's requests to a server, and returns what came back. An error means that it was not run.
func runVector(ctx context.Context, address string, asked vector) ([]json.RawMessage, callStatus, error) {
	service := monopathv1.File_monopath_v1_service_proto.Services().ByName(serviceName)
	method := service.Methods().ByName(protoreflect.Name(asked.Method))
	if method == nil {
		return nil, callStatus{}, fmt.Errorf("expected a method of %s, got %q", service.FullName(), asked.Method)
	}
	requests := make([][]byte, len(asked.Requests))
	for index, request := range asked.Requests {
		encoded, err := encodeRequest(method.Input(), request)
		if err != nil {
			err = fmt.Errorf("expected a request of %s at %d, got: %w", method.Input().FullName(), index, err)
			return nil, callStatus{}, err
		}
		requests[index] = encoded
	}
	name := fmt.Sprintf("/%s/%s", service.FullName(), method.Name())
	received, callError := exchange(ctx, address, name, method.IsStreamingClient(), requests, asked.HalfClose)
	responses := make([]json.RawMessage, len(received))
	for index, response := range received {
		decoded, err := decodeResponse(method.Output(), response)
		if err != nil {
			err = fmt.Errorf("expected a response of %s at %d, got: %w", method.Output().FullName(), index, err)
			return nil, callStatus{}, err
		}
		responses[index] = decoded
	}
	return responses, statusOf(callError), nil
}

// encodeRequest returns the bytes of a vector's request: those that it gives, or those of its protobuf JSON.
func encodeRequest(descriptor protoreflect.MessageDescriptor, request json.RawMessage) ([]byte, error) {
	var raw struct {
		Wire *string `json:"wire"`
	}
	if err := json.Unmarshal(request, &raw); err != nil {
		return nil, err
	}
	if raw.Wire != nil {
		return base64.StdEncoding.DecodeString(*raw.Wire)
	}
	message := dynamicpb.NewMessage(descriptor)
	if err := protojson.Unmarshal(request, message); err != nil {
		return nil, err
	}
	return proto.Marshal(message)
}

// decodeResponse returns a response in protobuf JSON, in which fields without presence are written even at their
// default.
func decodeResponse(descriptor protoreflect.MessageDescriptor, response []byte) (json.RawMessage, error) {
	message := dynamicpb.NewMessage(descriptor)
	if err := proto.Unmarshal(response, message); err != nil {
		return nil, err
	}
	encoded, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	// Read and written again, for two reasons: protojson varies its white space on purpose, and it writes null for a
	// message that is not there, which has presence and so is to be left out.
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(withoutNulls(value))
}

// withoutNulls drops the members of objects that are null, at any depth. The contract has no field whose value may be
// null.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if member == nil {
				delete(value, name)
			} else {
				value[name] = withoutNulls(member)
			}
		}
	case []any:
		for index, element := range value {
			value[index] = withoutNulls(element)
		}
	}
	return value
}
