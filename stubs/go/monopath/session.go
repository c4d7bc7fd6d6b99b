package monopath

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// A session is the state of one stream of the server's, from its config to its summary: what may be sent, and whether
// what was received keeps to the grammar. It does no I/O but to look where the server's memory is, and its Stream's mutex
// guards it.
type session[I Item] struct {
	path   monopathv1.PreprocessingPath
	config Config
	call   grpc.ClientStream

	ready   *monopathv1.Ready
	goaway  *monopathv1.Goaway
	failure *monopathv1.StreamFailure
	summary *monopathv1.Summary

	// Items without an end, and, where they are to end in the order of sending, their ids in it.
	unfinished      map[int32]*unfinishedItem
	order           []int32
	unfinishedBytes uint64
	acceptedCount   uint32

	// The server's segments, where they carry the features.
	mappings *segmentMappings
	// Items whose memory was released here; the server has still to be told. release does that for one item, and is
	// called without the mutex held. It is there as long as the stream of the server's: results that are garbage are
	// found only where nothing leads from them to the queue that they are in.
	releases []int32
	release  atomic.Pointer[func(id int32)]

	wantsHalfClose, halfClosed bool
	// The call has ended.
	ended bool
}

// An unfinishedItem was sent and has no end yet.
type unfinishedItem struct {
	label        string
	payloadBytes uint64
	plan         *monopathv1.ImagePlan
	// The features, as far as they came; as long as the plan says from the first chunk on.
	features    []byte
	filledBytes uint64
	// The features, where they came by handle.
	lease *lease
	// The item's own bytes, where they were sent by handle.
	upload *upload
	// Why the item was not sent at all. It waits for its turn, where items end in the order they were sent.
	refusal *ItemError
}

// An event is what is told of an item: its plan, or its result.
type event[I Item] struct {
	id     int32
	label  string
	plan   *monopathv1.ImagePlan
	result *Result[I]
}

func newSession[I Item](path monopathv1.PreprocessingPath, config Config) *session[I] {
	return &session[I]{path: path, config: config, unfinished: map[int32]*unfinishedItem{}}
}

// takesItems says that items may be sent now, as far as there is room.
func (s *session[I]) takesItems() bool {
	return s.ready != nil && s.goaway == nil && s.failure == nil && s.summary == nil && !s.ended && !s.wantsHalfClose
}

// maxItems is how many items may be in flight, at least 1.
func (s *session[I]) maxItems() int {
	most := int(s.ready.GetLimits().GetMaxUnfinishedItems())
	if s.config.MaxUnfinishedItems > 0 && s.config.MaxUnfinishedItems < most {
		most = s.config.MaxUnfinishedItems
	}
	if most < 1 {
		most = 1
	}
	return most
}

// hasRoom says that the item fits into what server and caller allow at a time. One item always does.
func (s *session[I]) hasRoom(item outgoing) bool {
	if len(s.unfinished) == 0 || s.isTooLarge(item) {
		return true
	}
	fits := s.unfinishedBytes+uint64(len(item.payload)) <= s.ready.GetLimits().GetMaxUnfinishedBytes()
	return len(s.unfinished) < s.maxItems() && fits
}

// begin takes an item. It returns false for one that is not to be sent: a request that the server cannot take would end
// the whole stream, so the item ends with an error instead.
func (s *session[I]) begin(id int32, item outgoing) ([]event[I], bool) {
	begun := &unfinishedItem{label: item.label, payloadBytes: uint64(len(item.payload)), upload: item.upload}
	if s.isTooLarge(item) {
		begun.upload.end()
		begun.payloadBytes = 0
		begun.refusal = &ItemError{
			ID: id, Label: item.label, Reason: monopathv1.ItemErrorReason_ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED,
			Message: fmt.Sprintf("expected a request of at most %d bytes, got up to %d; not sent",
				s.ready.GetLimits().GetMaxRequestBytes(), item.largestRequestBytes(s.ready.GetLimits())),
		}
		if len(s.order) == 0 {
			return []event[I]{refused[I](id, begun)}, false
		}
	} else {
		s.acceptedCount++
	}
	s.unfinished[id] = begun
	s.unfinishedBytes += begun.payloadBytes
	if s.config.order() == AsSent {
		s.order = append(s.order, id)
	}
	return nil, begun.refusal == nil
}

func (s *session[I]) isTooLarge(item outgoing) bool {
	limits := s.ready.GetLimits()
	limit := uint64(limits.GetMaxRequestBytes())
	return limit > 0 && item.largestRequestBytes(limits) > limit
}

// awaitsEnd says that the server has still to end the item.
func (s *session[I]) awaitsEnd(id int32) bool {
	item := s.unfinished[id]
	return item != nil && item.refusal == nil
}

// receive takes one message of the server, and returns what it tells of items. The error is what the stream is to end
// with.
func (s *session[I]) receive(received message) ([]event[I], error) {
	switch {
	case received == message{}:
		return nil, nil
	case received.nestedGroup:
		return nil, protocolError("expected a group of responses, got one with a group in it")
	case s.summary != nil:
		return nil, protocolError("expected nothing after the summary, got another message")
	case received.goaway != nil:
		s.goaway = received.goaway
		return nil, nil
	case received.failure != nil:
		s.failure = received.failure
		return nil, nil
	case received.ready != nil:
		return nil, s.receiveReady(received.ready)
	case s.ready == nil && !(received.summary != nil && s.goaway != nil):
		return nil, protocolError("expected ready first, got another message")
	case received.plan != nil:
		return s.receivePlan(received.plan)
	case received.features != nil:
		return nil, s.receiveFeatures(received.features)
	case received.completion != nil:
		return s.receiveCompletion(received.completion)
	case received.itemError != nil:
		return s.receiveError(received.itemError)
	default:
		return nil, s.receiveSummary(received.summary)
	}
}

// checkEnd takes the end with the status OK.
func (s *session[I]) checkEnd() error {
	if s.summary == nil && !(s.ready == nil && s.goaway != nil) {
		return protocolError("expected a summary before the stream's end, got none")
	}
	return nil
}

func (s *session[I]) receiveReady(ready *monopathv1.Ready) error {
	if s.ready != nil {
		return protocolError("expected ready once, got another")
	}
	if ready.GetPath() != s.path {
		return protocolError("expected a stream of %v, got %v", s.path, ready.GetPath())
	}
	if memory := s.config.SharedMemory; memory != nil {
		if err := memory.checkOffer(ready.GetSharedMemory()); err != nil {
			return err
		}
		s.mappings = &segmentMappings{directory: memory.directory}
	}
	s.ready = ready
	return nil
}

func (s *session[I]) receivePlan(sent *monopathv1.ItemPlan) ([]event[I], error) {
	id := sent.GetId()
	item := s.unfinished[id]
	switch {
	case !s.awaitsEnd(id):
		return nil, protocolError("expected a plan of an item without an end, got one of item %d", id)
	case item.plan != nil:
		return nil, protocolError("expected one plan of item %d, got another", id)
	case sent.GetPath() != s.path:
		return nil, protocolError("expected a plan of %v, got %v", s.path, sent.GetPath())
	}
	if err := s.checkTensor(sent.GetPlan().GetFeatures()); err != nil {
		return nil, err
	}
	item.plan = sent.GetPlan()
	return []event[I]{{id: id, label: item.label, plan: item.plan}}, nil
}

// checkTensor checks a planned tensor, whose size is going to be allocated, against itself, the stream and its limits.
func (s *session[I]) checkTensor(spec *monopathv1.TensorSpec) error {
	if spec.GetDataType() != s.config.DataType {
		return protocolError("expected a plan of %v, got %v", s.config.DataType, spec.GetDataType())
	}
	limit := uint64(s.ready.GetLimits().GetMaxFeatureBytes())
	size := elementBytes(spec.GetDataType())
	for _, length := range spec.GetShape() {
		if length < 1 || uint64(length) > limit {
			return protocolError("expected lengths of 1 to %d, got the shape %v", limit, spec.GetShape())
		}
		// Neither factor is over 32 bits: the product is right before it is compared.
		if size *= uint64(length); size > limit {
			break
		}
	}
	if len(spec.GetShape()) == 0 || size > limit || size != uint64(spec.GetSizeBytes()) {
		return protocolError("expected a plan of as many bytes as its tensor has, and at most %d, got %d for %v of %v",
			limit, spec.GetSizeBytes(), spec.GetShape(), spec.GetDataType())
	}
	return nil
}

func (s *session[I]) receiveFeatures(features featuresMessage) error {
	id := features.GetId()
	item := s.unfinished[id]
	if !s.awaitsEnd(id) || item.plan == nil {
		return protocolError("expected features of an item with a plan and without an end, got some of item %d", id)
	}
	if handle := features.GetSharedMemory(); handle != nil && s.mappings != nil {
		return s.receiveHandle(id, item, handle)
	}
	chunk := features.GetChunk()
	if chunk == nil {
		return protocolError("expected features of item %d in the message, got them elsewhere", id)
	}
	if item.lease != nil {
		return protocolError("expected no chunk of item %d, whose features came by handle, got one", id)
	}
	size := item.featureBytes()
	if uint64(chunk.GetOffsetBytes()) != item.filledBytes || item.filledBytes+uint64(len(chunk.GetData())) > size {
		return protocolError("expected a chunk of item %d at %d of %d bytes, got %d bytes at %d",
			id, item.filledBytes, size, len(chunk.GetData()), chunk.GetOffsetBytes())
	}
	if item.features == nil {
		item.features = make([]byte, size)
	}
	copy(item.features[item.filledBytes:], chunk.GetData())
	item.filledBytes += uint64(len(chunk.GetData()))
	return nil
}

func (s *session[I]) receiveHandle(id int32, item *unfinishedItem, handle *monopathv1.SharedMemoryHandle) error {
	if item.features != nil || item.lease != nil {
		return protocolError("expected features of item %d in chunks or by one handle, got a handle besides", id)
	}
	if size := item.featureBytes(); handle.GetLengthBytes() != size {
		return protocolError("expected a handle of item %d with %d bytes, got %d", id, size, handle.GetLengthBytes())
	}
	taken, err := s.mappings.lease(handle, func() {
		if release := s.release.Load(); release != nil {
			(*release)(id)
		}
	})
	item.lease = taken
	return err
}

func (s *session[I]) receiveCompletion(completion completionMessage) ([]event[I], error) {
	id := completion.GetId()
	item := s.unfinished[id]
	if !s.awaitsEnd(id) || item.plan == nil {
		return nil, protocolError("expected the completion of an item with a plan and without an end, got item %d", id)
	}
	if size := item.featureBytes(); item.lease == nil && item.filledBytes != size {
		return nil, protocolError("expected %d bytes of item %d before its completion, got %d", size, id, item.filledBytes)
	}
	made := completion.GetProvenance()
	if made.GetPath() != s.path || !bytes.Equal(made.GetConfigSha256(), s.ready.GetConfigSha256()) {
		return nil, protocolError("expected item %d made by %v with the stream's config, got %v with %x",
			id, s.path, made.GetPath(), made.GetConfigSha256())
	}
	result := &Result[I]{
		ID: id, Label: item.label, Plan: item.plan, Features: item.features, lease: item.lease,
		Provenance: made, Timings: completion.GetTimings(),
	}
	if cached, ok := completion.(interface {
		GetCache() monopathv1.CacheOutcome
	}); ok {
		result.Cache = cached.GetCache()
	}
	return s.end(result)
}

func (s *session[I]) receiveError(sent *monopathv1.ItemError) ([]event[I], error) {
	id := sent.GetId()
	if !s.awaitsEnd(id) {
		return nil, protocolError("expected an error of an item without an end, got one of item %d", id)
	}
	item := s.unfinished[id]
	s.drop(id, item.lease)
	return s.end(&Result[I]{ID: id, Label: item.label, Err: itemErrorOf(sent, item.label), Plan: item.plan})
}

func (s *session[I]) receiveSummary(summary *monopathv1.Summary) error {
	if len(s.unfinished) > 0 {
		return protocolError("expected %d more items to end before the summary, got none", len(s.unfinished))
	}
	endedCount := summary.GetCompletedCount() + summary.GetFailedCount() + summary.GetCancelledCount()
	if summary.GetAcceptedCount() != s.acceptedCount || endedCount != s.acceptedCount {
		return protocolError("expected a summary of %d items, got %d accepted and %d ended",
			s.acceptedCount, summary.GetAcceptedCount(), endedCount)
	}
	s.summary = summary
	return nil
}

// end takes the end of an item, and of those that waited for their turn behind it.
func (s *session[I]) end(result *Result[I]) ([]event[I], error) {
	if len(s.order) > 0 {
		if s.order[0] != result.ID {
			return nil, protocolError("expected item %d to end first, as sent, got the end of item %d",
				s.order[0], result.ID)
		}
		s.order = s.order[1:]
	}
	item := s.unfinished[result.ID]
	item.upload.end()
	s.unfinishedBytes -= item.payloadBytes
	delete(s.unfinished, result.ID)
	events := []event[I]{{id: result.ID, label: result.Label, result: result}}
	for len(s.order) > 0 && s.unfinished[s.order[0]].refusal != nil {
		id := s.order[0]
		events = append(events, refused[I](id, s.unfinished[id]))
		s.order = s.order[1:]
		delete(s.unfinished, id)
	}
	return events, nil
}

// drop releases features that nobody will take. The lease may be nil.
func (s *session[I]) drop(id int32, features *lease) {
	if features != nil && features.close() {
		s.releases = append(s.releases, id)
	}
}

// dropMemory gives up what belongs to items that will have no end, and what was kept for later ones. The stream of the
// server's is over.
func (s *session[I]) dropMemory() {
	s.release.Store(nil)
	if s.mappings != nil {
		s.mappings.close()
	}
	for id, item := range s.unfinished {
		item.upload.end()
		s.drop(id, item.lease)
	}
}

// featureBytes is the size of the features of an item that has a plan.
func (u *unfinishedItem) featureBytes() uint64 {
	return uint64(u.plan.GetFeatures().GetSizeBytes())
}

func refused[I Item](id int32, item *unfinishedItem) event[I] {
	return event[I]{id: id, label: item.label, result: &Result[I]{ID: id, Label: item.label, Err: item.refusal}}
}
