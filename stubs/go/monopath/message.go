package monopath

import (
	"google.golang.org/grpc"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

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
	// A group in a group, which no server may send.
	nestedGroup bool
}

type featuresMessage interface {
	GetId() int32
	GetChunk() *monopathv1.FeatureChunk
	GetSharedMemory() *monopathv1.SharedMemoryHandle
}

type completionMessage interface {
	GetId() int32
	GetProvenance() *monopathv1.Provenance
	GetTimings() *monopathv1.ItemTimings
}

// pathFeatures and pathCompletion are a path's own messages for features and completion.
type (
	pathFeatures interface {
		comparable
		featuresMessage
	}
	pathCompletion interface {
		comparable
		completionMessage
	}
)

// A pathGroup is a path's message for several responses in one.
type pathGroup[R any] interface {
	comparable
	GetResponses() []*R
}

// A pathResponse is what the responses of all paths have in common.
type pathResponse[F pathFeatures, C pathCompletion, G any, R any] interface {
	*R
	GetReady() *monopathv1.Ready
	GetPlan() *monopathv1.ItemPlan
	GetFeatures() F
	GetCompletion() C
	GetError() *monopathv1.ItemError
	GetSummary() *monopathv1.Summary
	GetGoaway() *monopathv1.Goaway
	GetFailure() *monopathv1.StreamFailure
	GetGroup() G
}

// receiveMessages takes the next response of a path, and returns what it says: several messages where it is a group.
func receiveMessages[F pathFeatures, C pathCompletion, G pathGroup[R], R any, P pathResponse[F, C, G, R]](
	stream grpc.ClientStream,
) ([]message, error) {
	response := P(new(R))
	if err := stream.RecvMsg(response); err != nil {
		return nil, err
	}
	// A nil pointer in an interface would not be nil.
	var noGroup G
	group := response.GetGroup()
	if group == noGroup {
		return []message{readResponse[F, C, G, R](response)}, nil
	}
	read := make([]message, 0, len(group.GetResponses()))
	for _, one := range group.GetResponses() {
		if P(one).GetGroup() != noGroup {
			read = append(read, message{nestedGroup: true})
			continue
		}
		read = append(read, readResponse[F, C, G, R](P(one)))
	}
	return read, nil
}

// readResponse reads a response that is no group.
func readResponse[F pathFeatures, C pathCompletion, G any, R any, P pathResponse[F, C, G, R]](response P) message {
	read := message{
		ready:     response.GetReady(),
		plan:      response.GetPlan(),
		itemError: response.GetError(),
		summary:   response.GetSummary(),
		goaway:    response.GetGoaway(),
		failure:   response.GetFailure(),
	}
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
