//! A stream of items and their results.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::poll_fn;
use tokio::time::sleep_until;

use crate::config::Config;
use crate::error::{Error, StreamError};
use crate::map::Map;
use crate::path::{Path, Received};
use crate::session::{Event, ItemResult, Session};
use crate::status::{Code, Status};
use crate::transport::{Call, Transport};
use crate::v1::{PreprocessingPath, Ready, Summary};

const MAX_FRUITLESS_MOVES: u32 = 3;

/// Takes items of the path `P`, and gives one [`ItemResult`] for each.
///
/// Whatever of it is awaited both reads and writes, so that neither waits for the other for ever; nothing happens in between,
/// and what the server has to say waits on the connection. Its futures may be dropped at any time: what was begun goes on with
/// the next one, and no result is lost. Only of an item whose `send` was dropped it is not said whether it was sent; its
/// result, if it was, comes like any other. A stream that is dropped is cancelled, with what is in flight.
///
/// Several streams of the server may carry it, one after another: where the server asks to move, the items that it has are
/// awaited, and the rest goes to a new stream under the same config. Ids go on.
pub struct Stream<P: Path> {
    transport: Arc<dyn Transport>,
    config: Config,
    deadline: Option<Instant>,
    call: Box<dyn Call>,
    session: Session<P>,
    ready: Ready,
    /// What the caller has not taken yet.
    events: VecDeque<Event<P>>,
    last_id: i32,
    fruitless_moves: u32,
    summary: Summary,
    /// The caller sends no more.
    is_closing: bool,
    /// The stream of the server's has ended well.
    has_ended: bool,
    error: Option<Error>,
}

/// What a turn of reading and writing came to.
enum Turn {
    Flushed,
    Received,
}

impl<P: Path> Stream<P> {
    pub(crate) async fn open(transport: Arc<dyn Transport>, config: Config) -> Result<Self, Error> {
        if config.device_uuid.is_some() && P::PATH != PreprocessingPath::DeferredCuda {
            return Err(Error::Invalid(format!("Expected a device for DeferredCuda only, got one for {:?}", P::PATH)));
        }
        let deadline = config.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let call = open_call::<P>(&*transport, &config, deadline).await?;
        let mut stream = Stream {
            session: Session::new(config.clone()),
            transport,
            config,
            deadline,
            call,
            ready: Ready::default(),
            events: VecDeque::new(),
            last_id: 0,
            fruitless_moves: 0,
            summary: Summary::default(),
            is_closing: false,
            has_ended: false,
            error: None,
        };
        while stream.session.ready().is_none() {
            if stream.has_ended {
                stream.reopen().await?;
            }
            stream.read().await?;
        }
        Ok(stream)
    }

    /// The server's latest opening: the config that holds, typed and complete, with its digest, and the limits.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Sends an item, and returns its id: 1, 2 and so on. It waits until the server takes the item; results that come
    /// meanwhile wait in memory until they are taken.
    pub async fn send(&mut self, item: P::Item) -> Result<i32, Error> {
        self.await_room(&item).await?;
        let id = self.begin(item);
        self.flush().await?;
        Ok(id)
    }

    /// The next result, plans left out. It waits for one, and is `None` when, behind `close_send`, all results were taken and
    /// the stream came to its good end.
    pub async fn next(&mut self) -> Result<Option<ItemResult<P>>, Error> {
        while let Some(event) = self.next_event().await? {
            if let Event::Result(result) = event {
                return Ok(Some(result));
            }
        }
        Ok(None)
    }

    /// The next plan or result, as `next` else.
    pub async fn next_event(&mut self) -> Result<Option<Event<P>>, Error> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.has_ended {
                if self.is_closing {
                    return Ok(None);
                }
                // Nothing can come before another item is sent, which opens a new stream.
                return Err(self.await_deadline().await);
            }
            self.read().await?;
        }
    }

    /// Sends all items, and gives their results: as they complete or in the order of the items, as the config says. It takes
    /// the next item only where there is room for it and no result is to be taken first.
    pub fn map<I>(&mut self, items: I) -> Map<'_, P, I::IntoIter>
    where
        I: IntoIterator<Item = P::Item>,
    {
        Map::new(self, items.into_iter())
    }

    /// Asks the server to drop an item that was sent. It ends still, with the error CANCELLED, or as it had ended before.
    pub async fn cancel(&mut self, id: i32) -> Result<(), Error> {
        if !self.has_ended && !self.session.is_leaving() && self.session.awaits_end(id) {
            self.call.push(P::cancellation(id));
            self.flush().await?;
        }
        Ok(())
    }

    /// Says that no more items will be sent. Results are still to be taken. Harmless when repeated.
    pub fn close_send(&mut self) {
        self.is_closing = true;
        self.call.half_close();
    }

    /// Brings the stream to its good end, and returns what it came to: the sum of all streams of the server that carried it.
    /// It waits for items without an end; results that were not taken are dropped.
    pub async fn finish(mut self) -> Result<Summary, Error> {
        self.close_send();
        while self.next_event().await?.is_some() {}
        Ok(self.summary)
    }

    /// What has been told and not been taken.
    pub(crate) fn take_event(&mut self) -> Option<Event<P>> {
        self.events.pop_front()
    }

    /// The item may be sent now. It opens a new stream of the server's where that is needed.
    pub(crate) async fn has_room(&mut self, item: &P::Item) -> Result<bool, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if self.is_closing {
            return Err(Error::Closed);
        }
        if self.last_id == i32::MAX {
            return Err(Error::Invalid(format!("Expected at most {} items on a stream, got one more", i32::MAX)));
        }
        if self.has_ended {
            self.reopen().await?;
        }
        Ok(self.session.takes_items() && self.session.has_room(item))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    /// Queues an item that there is room for.
    pub(crate) fn begin(&mut self, item: P::Item) -> i32 {
        self.last_id += 1;
        if self.session.begin(self.last_id, &item, &mut self.events) {
            for request in P::requests(item, self.last_id, &self.session.limits()) {
                self.call.push(request);
            }
        }
        self.last_id
    }

    /// Reads until what is queued was sent, or will never be.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        while !self.has_ended && !self.session.is_broken() {
            if let Turn::Flushed = self.turn(true).await? {
                break;
            }
        }
        Ok(())
    }

    /// Reads one message of the server or its end, and writes meanwhile.
    pub(crate) async fn read(&mut self) -> Result<(), Error> {
        self.turn(false).await.map(|_| ())
    }

    async fn await_room(&mut self, item: &P::Item) -> Result<(), Error> {
        while !self.has_room(item).await? {
            self.read().await?;
        }
        Ok(())
    }

    /// One turn of reading and writing. The stream's error is told again and again.
    async fn turn(&mut self, ends_when_flushed: bool) -> Result<Turn, Error> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let call = &mut self.call;
        let received = poll_fn(|context| {
            let is_flushed = call.poll_flush(context).is_ready();
            match call.poll_message(context) {
                Poll::Ready(received) => Poll::Ready(Some(received)),
                Poll::Pending if is_flushed && ends_when_flushed => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        let taken = match received.await {
            None => return Ok(Turn::Flushed),
            Some(Ok(Some(message))) => self.take_message(message),
            Some(Ok(None)) => self.take_end(),
            Some(Err(status)) => Err(StreamError::of_status(status, self.session.take_failure()).into()),
        };
        if let Err(error) = taken {
            self.error = Some(error.clone());
            return Err(error);
        }
        Ok(Turn::Received)
    }

    fn take_message(&mut self, message: Bytes) -> Result<(), Error> {
        let received = P::read(message).map_err(|error| {
            Error::protocol(format_args!("Expected a response of {:?}, got other bytes: {error}", P::PATH))
        })?;
        let is_opening = matches!(received, Received::Ready(_));
        self.session.receive(received, &mut self.events)?;
        if is_opening {
            self.take_ready()?;
        }
        if self.session.is_leaving() {
            self.call.half_close();
        }
        Ok(())
    }

    /// Takes an opening, which has to be of the same config on each stream of the server's.
    fn take_ready(&mut self) -> Result<(), Error> {
        let ready = self.session.ready().cloned().unwrap_or_default();
        let (first, now) = (&self.ready.config_sha256, &ready.config_sha256);
        if !first.is_empty() && first != now {
            return Err(Error::Moved(format!("Expected the config {first:x} on the new stream too, got {now:x}")));
        }
        self.ready = ready;
        Ok(())
    }

    fn take_end(&mut self) -> Result<(), Error> {
        if let Some(failure) = self.session.take_failure() {
            return Err(StreamError::of_failure(failure).into());
        }
        if !self.is_closing && !self.session.is_leaving() {
            return Err(Error::protocol("Expected the server to wait for the half-close, got its end"));
        }
        if let Some(done) = self.session.receive_end()? {
            add(&mut self.summary, &done);
        }
        self.has_ended = true;
        Ok(())
    }

    /// Opens a new stream of the server's, behind one that it asked to leave. It takes items once its opening was read.
    async fn reopen(&mut self) -> Result<(), Error> {
        self.fruitless_moves = if self.session.accepted_count() == 0 { self.fruitless_moves + 1 } else { 0 };
        if self.fruitless_moves >= MAX_FRUITLESS_MOVES {
            let text = format!("Expected a stream that takes items, got {MAX_FRUITLESS_MOVES} that asked to move");
            return Err(self.fail(Error::Moved(text)));
        }
        match open_call::<P>(&*self.transport, &self.config, self.deadline).await {
            Ok(call) => self.call = call,
            Err(error) => return Err(self.fail(error)),
        }
        self.session = Session::new(self.config.clone());
        self.has_ended = false;
        Ok(())
    }

    async fn await_deadline(&mut self) -> Error {
        match self.deadline {
            None => pending().await,
            Some(deadline) => sleep_until(deadline.into()).await,
        }
        let status = Status::new(Code::DeadlineExceeded, "Expected the end before the deadline, got none");
        self.fail(StreamError::of_status(status, None).into())
    }

    fn fail(&mut self, error: Error) -> Error {
        self.error = Some(error.clone());
        error
    }
}

async fn open_call<P: Path>(
    transport: &dyn Transport,
    config: &Config,
    deadline: Option<Instant>,
) -> Result<Box<dyn Call>, Error> {
    let opened = transport.open(P::METHOD, deadline).await;
    let mut call = opened.map_err(|status| StreamError::of_status(status, None))?;
    call.push(P::config(config));
    Ok(call)
}

fn add(sum: &mut Summary, done: &Summary) {
    sum.accepted_count += done.accepted_count;
    sum.completed_count += done.completed_count;
    sum.failed_count += done.failed_count;
    sum.cancelled_count += done.cancelled_count;
    sum.received_bytes += done.received_bytes;
    sum.sent_bytes += done.sent_bytes;
    sum.fallback_count += done.fallback_count;
}
