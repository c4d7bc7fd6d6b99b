package monopath

import "errors"

// Map sends all items, and calls each with every result: as they complete, or in the order of the items, as the
// stream's Config says. It reads while it writes, sends no more than the server takes, and takes the next item only
// when there is room for its result too.
//
// Items is a function that hands items to yield until that returns false, like an iter.Seq of Go 1.23. It is run in a
// goroutine of its own, while each is called in the caller's.
//
// Map returns how many results there were, when every item has had its own. The error is nil, and the stream is ready
// for more; or what each returned, and the stream is closed; or what the stream ended with; or that of an item that
// cannot be sent at all, behind which no more items were taken, and the stream is ready for more.
func (s *Stream[I]) Map(items func(yield func(I) bool), each func(Result[I]) error) (int, error) {
	s.mutex.Lock()
	busy := len(s.queue) > 0 || len(s.session.unfinished) > 0
	s.mutex.Unlock()
	if busy {
		return 0, errors.New("monopath: expected a stream without items in flight, got one whose results were not taken")
	}
	// Both guarded by the mutex.
	var sendErr error
	exhausted := false
	go func() {
		defer func() {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			exhausted = true
			s.changed.Broadcast()
		}()
		stopped := false
		items(func(item I) bool {
			if stopped {
				return false
			}
			if _, err := s.send(item, true); err != nil {
				s.mutex.Lock()
				defer s.mutex.Unlock()
				sendErr, stopped = err, true
			}
			return !stopped
		})
	}()
	for count := 0; ; count++ {
		result, ok, err := s.next(func() bool { return exhausted && len(s.session.unfinished) == 0 })
		if err != nil {
			return count, err
		}
		if !ok {
			s.mutex.Lock()
			defer s.mutex.Unlock()
			return count, sendErr
		}
		if err := each(result); err != nil {
			s.Close()
			return count + 1, err
		}
	}
}
