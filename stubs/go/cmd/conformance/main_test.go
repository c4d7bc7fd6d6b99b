package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

func descriptorOf(message proto.Message) protoreflect.MessageDescriptor {
	return message.ProtoReflect().Descriptor()
}

func TestABytesRequestIsSentAsItIs(t *testing.T) {
	// Both arms of a oneof, and a field that nobody knows: no message has these bytes.
	wire := []byte{0xaa, 0x01, 0x00, 0xb2, 0x01, 0x00, 0xf8, 0x7f, 0x01}
	request, err := json.Marshal(map[string]string{"wire": base64.StdEncoding.EncodeToString(wire)})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := encodeRequest(descriptorOf(&monopathv1.StreamDeferredCpuRequest{}), request)
	if err != nil || !bytes.Equal(encoded, wire) {
		t.Fatalf("expected %x, got %x and %v", wire, encoded, err)
	}
}

func TestAnUnknownNumberOfAnEnumIsPassedOn(t *testing.T) {
	request := json.RawMessage(`{"config": {"output": {"dataType": 99}}}`)
	encoded, err := encodeRequest(descriptorOf(&monopathv1.StreamDeferredCpuRequest{}), request)
	if err != nil {
		t.Fatal(err)
	}
	var decoded monopathv1.StreamDeferredCpuRequest
	if err := proto.Unmarshal(encoded, &decoded); err != nil || decoded.GetConfig().GetOutput().GetDataType() != 99 {
		t.Fatalf("expected the number 99, got %v and %v", &decoded, err)
	}
}

func TestAResponseIsWrittenWithItsDefaultsAndWithoutNulls(t *testing.T) {
	response, err := proto.Marshal(&monopathv1.StreamDeferredCpuResponse{
		Payload: &monopathv1.StreamDeferredCpuResponse_Plan{Plan: &monopathv1.ItemPlan{
			Id: 1, Plan: &monopathv1.ImagePlan{Features: &monopathv1.TensorSpec{Shape: []int64{1, 3}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := decodeResponse(descriptorOf(&monopathv1.StreamDeferredCpuResponse{}), response)
	want := `{"plan":{"id":1,"path":"PREPROCESSING_PATH_UNSPECIFIED","plan":` +
		`{"features":{"dataType":"DATA_TYPE_UNSPECIFIED","shape":["1","3"],"sizeBytes":0},"tokenCount":0}}}`
	if err != nil || string(decoded) != want {
		t.Fatalf("expected %s, got %s and %v", want, decoded, err)
	}
}

func TestEachJobHasOneOutcomeInOrder(t *testing.T) {
	// Nobody listens at this port.
	jobs := `{"address": "127.0.0.1:1", "vector": {"name": "unary", "method": "GetCapabilities", "requests": [{}]}}
{"address": "127.0.0.1:1", "vector": {"name": "stream", "method": "StreamLocal", "requests": [{}, {}], "half_close": true}}
{"address": "127.0.0.1:1", "vector": {"name": "later", "method": "StreamLater", "requests": []}}
{"address": "127.0.0.1:1", "vector": {"name": "wrong", "method": "Plan", "requests": [{"surprise": 1}]}}
`
	var output bytes.Buffer
	if err := runJobs(strings.NewReader(jobs), &output); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(output.String(), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("expected 4 lines, got %s", output.String())
	}
	for index, want := range []struct{ start, code string }{
		{`{"name":"unary","responses":[],"status":`, "UNAVAILABLE"},
		{`{"name":"stream","responses":[],"status":`, "UNAVAILABLE"},
		{`{"name":"later","skipped":"expected a method of monopath.v1.PreprocessingService, got`, ""},
		{`{"name":"wrong","skipped":"expected a request of monopath.v1.PlanRequest at 0, got`, ""},
	} {
		var found outcome
		if err := json.Unmarshal([]byte(lines[index]), &found); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(lines[index], want.start) {
			t.Errorf("expected %s, got %s", want.start, lines[index])
		}
		if want.code != "" && (found.Status.Code != want.code || found.Status.Violations == nil) {
			t.Errorf("expected %s without violations, got %v", want.code, found.Status)
		}
	}
}
