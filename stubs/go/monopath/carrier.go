package monopath

import (
	"bytes"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	monopathv1 "github.com/monopath/monopath/stubs/go/monopath/v1"
)

// What carries a Stream: one stream of the server's after another, and the goroutine that reads each. All methods here
// but read and watch are called with the mutex held.

// begin opens a stream of the server's and waits for its ready, or its end. The stream's error, if it fails, is in
// s.err.
func (s *Stream[I]) begin() {
	if s.session != nil && s.session.acceptedCount == 0 {
		s.fruitlessMove++
	} else {
		s.fruitlessMove = 0
	}
	if s.fruitlessMove >= maxFruitlessMoves {
		s.fail(fmt.Errorf("%w: expected a stream that takes items, got %d that asked to move", ErrMoved, maxFruitlessMoves))
		return
	}
	session := newSession[I](s.adapter.path, s.config)
	release := func(id int32) { s.release(session, id) }
	session.release.Store(&release)
	s.session = session
	s.writing = true
	var call grpc.ClientStream
	var err error
	s.unlocked(func() {
		if call, err = s.adapter.open(s.ctx, s.stub); err == nil {
			// The call's own end, if that is the error, is told by the goroutine that reads.
			_ = call.SendMsg(s.adapter.config(s.config))
		}
	})
	s.writing = false
	if err != nil {
		s.endSession(session, err)
		return
	}
	session.call = call
	s.closeCall(session)
	go s.read(session)
	for s.err == nil && session.ready == nil && !session.ended {
		s.changed.Wait()
	}
}

// read takes what the server sends on one of its streams, to the end.
func (s *Stream[I]) read(session *session[I]) {
	for {
		received, err := s.adapter.receive(session.call)
		s.mutex.Lock()
		if err != nil {
			s.endSession(session, err)
			s.mutex.Unlock()
			return
		}
		for _, one := range received {
			if s.err == nil {
				s.take(session, one)
			}
		}
		s.mutex.Unlock()
	}
}

// watch ends the stream with the caller's context, where no stream of the server's is there to be ended by it.
func (s *Stream[I]) watch() {
	<-s.ctx.Done()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.session.ended && !s.finished {
		s.fail(errorOfContext(s.ctx.Err()))
	}
}

// take takes one message of the server.
func (s *Stream[I]) take(session *session[I], received message) {
	events, err := session.receive(received)
	if err == nil && received.ready != nil {
		err = s.takeReady(received.ready)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.enqueue(session, events)
	if received.goaway != nil || received.failure != nil {
		s.halfClose()
	}
	s.sendReleases(session)
	s.changed.Broadcast()
}

// takeReady takes an opening. A new stream has to be of the same config as the first one.
func (s *Stream[I]) takeReady(ready *monopathv1.Ready) error {
	if s.ready != nil && !bytes.Equal(s.ready.GetConfigSha256(), ready.GetConfigSha256()) {
		return fmt.Errorf("%w: expected the config %x on the new stream too, got %x",
			ErrMoved, s.ready.GetConfigSha256(), ready.GetConfigSha256())
	}
	s.ready = ready
	return nil
}

// enqueue keeps events for the caller.
func (s *Stream[I]) enqueue(session *session[I], events []event[I]) {
	for _, one := range events {
		switch {
		case s.discarding:
			if one.result != nil {
				session.drop(one.id, one.result.lease)
			}
		case one.result != nil:
			s.queue = append(s.queue, one)
			s.waitingCount++
			s.waitingBytes += one.result.featureBytes()
		case s.config.OnPlan != nil:
			s.queue = append(s.queue, one)
		}
	}
	s.changed.Broadcast()
}

// endSession takes the end of a stream of the server's: io.EOF for the status OK.
func (s *Stream[I]) endSession(session *session[I], err error) {
	session.ended = true
	session.dropMemory()
	switch {
	case s.err != nil:
	case err != io.EOF:
		s.fail(errorOfStatus(s.ctx, err, session.failure))
	case session.failure != nil:
		s.fail(errorOfFailure(session.failure))
	case session.checkEnd() != nil:
		s.fail(session.checkEnd())
	default:
		s.addSummary(session.summary)
		if s.closing {
			s.finish()
		} else if s.ctx.Err() != nil {
			s.fail(errorOfContext(s.ctx.Err()))
		}
	}
	s.changed.Broadcast()
}

func (s *Stream[I]) addSummary(done *monopathv1.Summary) {
	if done == nil {
		return
	}
	if s.summary == nil {
		s.summary = proto.Clone(done).(*monopathv1.Summary)
		return
	}
	s.summary.AcceptedCount += done.GetAcceptedCount()
	s.summary.CompletedCount += done.GetCompletedCount()
	s.summary.FailedCount += done.GetFailedCount()
	s.summary.CancelledCount += done.GetCancelledCount()
	s.summary.ReceivedBytes += done.GetReceivedBytes()
	s.summary.SentBytes += done.GetSentBytes()
	s.summary.FallbackCount += done.GetFallbackCount()
}

// release has the server told that an item's memory is not read any more. It does not wait for that. Where the stream of
// the server's is over, or half-closed, it is that end which gives the memory back. Called without the mutex held.
func (s *Stream[I]) release(session *session[I], id int32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	session.releases = append(session.releases, id)
	s.sendReleases(session)
}

// sendReleases sends what is to be released, in a goroutine of its own: the reading one calls it. Where somebody writes,
// that one sends it.
func (s *Stream[I]) sendReleases(session *session[I]) {
	if len(session.releases) == 0 || s.writing || session.halfClosed || session.ended || s.err != nil {
		return
	}
	s.writing = true
	go func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.endWriting(session)
	}()
}

// endWriting gives the turn to write to a call back, behind releases that came meanwhile.
func (s *Stream[I]) endWriting(session *session[I]) {
	for len(session.releases) > 0 && !session.ended && session.failure == nil && s.err == nil {
		ids := session.releases
		session.releases = nil
		s.unlocked(func() {
			for _, id := range ids {
				// Its error is that of a call that has ended, which the reading goroutine sees as well.
				_ = session.call.SendMsg(s.adapter.release(id))
			}
		})
	}
	s.writing = false
	s.closeCall(session)
	s.changed.Broadcast()
}

// halfClose half-closes the stream of the server's, as soon as nobody writes to it. It does not wait for that: the
// reading goroutine calls it, without which the server may not take what is being written.
func (s *Stream[I]) halfClose() {
	s.session.wantsHalfClose = true
	if !s.writing {
		s.closeCall(s.session)
	}
}

func (s *Stream[I]) closeCall(session *session[I]) {
	if session.wantsHalfClose && !session.halfClosed && session.call != nil {
		session.halfClosed = true
		// Its error is that of a call that has ended, which the reading goroutine sees as well.
		_ = session.call.CloseSend()
	}
}

// finish marks the good end.
func (s *Stream[I]) finish() {
	s.finished = true
	s.cancel()
}

// fail marks the bad end. The first error counts.
func (s *Stream[I]) fail(err error) {
	if s.err == nil && !s.finished {
		s.err = err
		s.cancel()
	}
	s.changed.Broadcast()
}
