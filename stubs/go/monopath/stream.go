package monopath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

const maxFruitlessMoves = 3

// A Stream takes items of the type I, which is its path, and gives one Result for each. Goroutines may share it.
//
// A goroutine of the stream's own always reads, so that sending never waits for the caller to take results. Several
// streams of the server may carry it, one after another: where the server asks to move, the items that it has are
// awaited, and the rest goes to a new stream under the same config. Ids go on.
type Stream[I Item] struct {
	stub    monopathv1.PreprocessingServiceClient
	adapter pathAdapter[I]
	config  Config
	ctx     context.Context
	cancel  context.CancelFunc

	// mutex guards all that follows, the session too. changed is told of every change.
	mutex   sync.Mutex
	changed *sync.Cond
	session *session[I]
	ready   *monopathv1.Ready
	summary *monopathv1.Summary
	err     error
	// Plans and results that the caller has not taken yet, and what the results among them are.
	queue         []event[I]
	waitingCount  int
	waitingBytes  uint64
	nextID        int32
	fruitlessMove int
	// One goroutine has its turn to send an item. One writes to the call, with the mutex released.
	sending, writing bool
	// The caller sends no more; wants no more results; all came to a good end.
	closing, discarding, finished bool
}

func openStream[I Item](
	ctx context.Context, stub monopathv1.PreprocessingServiceClient, adapter pathAdapter[I], config Config,
) (*Stream[I], error) {
	if config.MaxUnfinishedItems < 0 {
		return nil, fmt.Errorf("monopath: expected MaxUnfinishedItems of at least 0, got %d", config.MaxUnfinishedItems)
	}
	if config.SharedMemory != nil && config.SharedMemory.owner.isClosed() {
		return nil, errors.New("monopath: expected open SharedMemory, got some that was closed")
	}
	s := &Stream[I]{stub: stub, adapter: adapter, config: config, nextID: 1}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.changed = sync.NewCond(&s.mutex)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.err == nil && s.ready == nil {
		s.begin()
	}
	if s.err != nil {
		return nil, s.err
	}
	go s.watch()
	return s, nil
}

// Ready is the server's latest opening: the config that holds, typed and complete, with its digest, and the limits.
func (s *Stream[I]) Ready() *monopathv1.Ready {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.ready
}

// Send sends an item, and returns its id. It waits until the server takes the item, but not for results to be taken:
// those wait in memory until Recv. It may be called while another goroutine is in Recv.
//
// The error is what the stream ended with. An item that cannot be sent at all is another error, and harmless.
func (s *Stream[I]) Send(item I) (int32, error) {
	return s.send(item, false)
}

// Recv returns the next result. It waits for one. The error is io.EOF when, behind CloseSend, all results were taken
// and the stream came to its good end; else it is what the stream ended with.
func (s *Stream[I]) Recv() (Result[I], error) {
	result, ok, err := s.next(func() bool { return s.finished })
	if err == nil && !ok {
		err = io.EOF
	}
	return result, err
}

// Cancel asks the server to drop an item that was sent. It ends still, with the error CANCELLED, or as it had ended
// before.
func (s *Stream[I]) Cancel(id int32) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if id < 1 || id >= s.nextID {
		return fmt.Errorf("monopath: expected the id of an item that was sent, got %d", id)
	}
	for s.writing && s.err == nil {
		s.changed.Wait()
	}
	session := s.session
	if s.err != nil {
		return s.err
	}
	if session.ended || session.wantsHalfClose || !session.awaitsEnd(id) {
		return nil
	}
	// The call's own end, if that is the error, is told by the goroutine that reads.
	_ = s.write(session, func(send func(proto.Message) error) error { return send(s.adapter.cancellation(id)) })
	return nil
}

// CloseSend says that no more items will be sent. Results are still to be taken. Harmless when repeated.
func (s *Stream[I]) CloseSend() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.err != nil || s.closing {
		return
	}
	s.closing = true
	if s.session.ended {
		s.finish()
	} else {
		s.halfClose()
	}
	s.changed.Broadcast()
}

// Finish brings the stream to its good end, and returns what it came to: the sum of all streams of the server that
// carried it. It waits for items without an end; results that were not taken are dropped. The error is what the stream
// ended with.
func (s *Stream[I]) Finish() (*monopathv1.Summary, error) {
	s.CloseSend()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.discarding = true
	s.dropQueue()
	for s.err == nil && !s.finished {
		s.changed.Wait()
	}
	return s.summary, s.err
}

// Close drops the stream, with what is in flight. Harmless behind Finish, and when repeated.
func (s *Stream[I]) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.finished {
		s.fail(ErrClosed)
	}
	s.dropQueue()
	s.cancel()
}

// dropQueue drops what the caller did not take. Its memory goes back to the server with the stream's end, which has been
// asked for.
func (s *Stream[I]) dropQueue() {
	for _, one := range s.queue {
		if one.result != nil && one.result.lease != nil {
			one.result.lease.close()
		}
	}
	s.queue = nil
}

// send sends an item. A bounded one also waits for results to be taken.
func (s *Stream[I]) send(item I, bounded bool) (int32, error) {
	prepared, err := s.adapter.prepare(item)
	if err != nil {
		return 0, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.sending && s.sendable() == nil {
		s.changed.Wait()
	}
	if err := s.sendable(); err != nil {
		return 0, err
	}
	s.sending = true
	defer func() {
		s.sending = false
		s.changed.Broadcast()
	}()
	if memory := s.config.SharedMemory; memory != nil {
		s.unlocked(func() { prepared.upload = memory.uploads.put(prepared.payload) })
	}
	if err := s.awaitRoom(prepared, bounded); err != nil {
		prepared.upload.end()
		return 0, err
	}
	id, session := s.nextID, s.session
	s.nextID++
	events, sent := session.begin(id, prepared)
	s.enqueue(session, events)
	if !sent {
		return id, nil
	}
	var handle *monopathv1.SharedMemoryHandle
	if prepared.upload != nil {
		handle = prepared.upload.handle()
	}
	err = s.write(session, func(send func(proto.Message) error) error {
		return prepared.requests(id, session.ready, handle, send)
	})
	if err == nil {
		return id, nil
	}
	// The call has ended, or soon will have; what with is told by the goroutine that reads.
	for s.err == nil && !session.ended {
		s.changed.Wait()
	}
	return id, s.err
}

// sendable returns why no item can be sent any more. Nil where one can, perhaps after a while.
func (s *Stream[I]) sendable() error {
	switch {
	case s.err != nil:
		return s.err
	case s.closing:
		return ErrClosed
	case s.nextID == math.MaxInt32:
		return fmt.Errorf("monopath: expected at most %d items on a stream, got one more", math.MaxInt32-1)
	default:
		return nil
	}
}

// awaitRoom waits until the item may be sent, and opens a new stream of the server's where that is needed.
func (s *Stream[I]) awaitRoom(item outgoing, bounded bool) error {
	for {
		if err := s.sendable(); err != nil {
			return err
		}
		switch {
		case s.writing:
			s.changed.Wait()
		case s.session.ended:
			s.begin()
		case !s.session.takesItems() || !s.session.hasRoom(item) || bounded && s.isFull():
			s.changed.Wait()
		default:
			return nil
		}
	}
}

// isFull says that results have to be taken first: with the items in flight they are as many as the server takes.
func (s *Stream[I]) isFull() bool {
	limit := s.session.ready.GetLimits().GetMaxUnfinishedBytes()
	return s.waitingCount > 0 &&
		(s.waitingCount+len(s.session.unfinished) >= s.session.maxItems() || s.waitingBytes >= limit)
}

// write has the call written to, with the mutex released, which the caller holds. Nobody else may be writing.
func (s *Stream[I]) write(session *session[I], requests func(send func(proto.Message) error) error) error {
	var err error
	s.writing = true
	s.unlocked(func() {
		err = requests(func(request proto.Message) error {
			if s.isBroken(session) {
				return io.EOF
			}
			return session.call.SendMsg(request)
		})
	})
	s.endWriting(session)
	return err
}

// isBroken says that the server wants nothing more of the stream, not even the rest of an item.
func (s *Stream[I]) isBroken(session *session[I]) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return session.failure != nil || session.ended || s.err != nil
}

// next takes the next result from the queue, and tells plans on the way. It returns false where done says that there is
// no further one, and an error where the stream ended with one.
func (s *Stream[I]) next(done func() bool) (Result[I], bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for {
		switch {
		case len(s.queue) > 0:
			taken := s.queue[0]
			// So that the result is freed when the caller drops it.
			s.queue[0] = event[I]{}
			s.queue = s.queue[1:]
			if taken.result == nil {
				s.unlocked(func() { s.config.OnPlan(taken.id, taken.label, taken.plan) })
				continue
			}
			s.waitingCount--
			s.waitingBytes -= taken.result.featureBytes()
			s.changed.Broadcast()
			return *taken.result, true, nil
		case s.err != nil:
			return Result[I]{}, false, s.err
		case done():
			return Result[I]{}, false, nil
		default:
			s.changed.Wait()
		}
	}
}

// unlocked calls a function with the mutex released, which the caller holds; also where it panics.
func (s *Stream[I]) unlocked(call func()) {
	s.mutex.Unlock()
	defer s.mutex.Lock()
	call()
}
