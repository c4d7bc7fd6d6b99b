//! One call, over one stream of HTTP/2.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::ready;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use tokio::time::Sleep;

use super::framing::{prefix, Deframer};
use super::trailers::{check_response, status_of, status_of_error};
use super::Call;
use crate::status::{Code, Status};

/// How much of the connection's window a call holds while it waits for more: one that nobody drives must not stop the others.
const RESERVED_BYTES: usize = 64 << 10;

/// A call over HTTP/2. Its stream is reset when it is dropped before its end.
pub(super) struct H2Call {
    requests: SendStream<Bytes>,
    /// What was not handed to the stream yet, prefixes and messages.
    queue: VecDeque<Bytes>,
    wants_half_close: bool,
    /// Nothing more can be sent: the half-close is out, or the stream has ended.
    send_closed: bool,
    responses: Responses,
    deframer: Deframer,
    deadline: Option<Pin<Box<Sleep>>>,
    /// The end, which is told as often as it is asked for.
    end: Option<Result<(), Status>>,
}

enum Responses {
    /// The headers of the response have not come.
    Awaited(ResponseFuture),
    Body(RecvStream),
}

impl H2Call {
    pub(super) fn new(
        response: ResponseFuture,
        requests: SendStream<Bytes>,
        deadline: Option<Pin<Box<Sleep>>>,
    ) -> Self {
        H2Call {
            requests,
            queue: VecDeque::new(),
            wants_half_close: false,
            send_closed: false,
            responses: Responses::Awaited(response),
            deframer: Deframer::default(),
            deadline,
            end: None,
        }
    }

    /// Hands what is queued to the stream, as far as the server's window allows.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while let Some(data) = self.queue.front_mut() {
            if data.is_empty() {
                self.queue.pop_front();
                continue;
            }
            self.requests.reserve_capacity(data.len().min(RESERVED_BYTES));
            while self.requests.capacity() == 0 {
                match self.requests.poll_capacity(context) {
                    Poll::Ready(Some(granted)) => granted?,
                    // No more can be sent on this stream.
                    Poll::Ready(None) => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
                    Poll::Pending => return Poll::Pending,
                };
            }
            let part = data.split_to(data.len().min(self.requests.capacity()));
            self.requests.send_data(part, false)?;
        }
        if self.wants_half_close {
            self.requests.send_data(Bytes::new(), true)?;
            self.send_closed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next message, or the end as an error: the status OK too.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        loop {
            let body = match &mut self.responses {
                Responses::Awaited(response) => {
                    let response = ready!(Pin::new(response).poll(context));
                    let (head, body) = response.map_err(|error| status_of_error(&error))?.into_parts();
                    check_response(head.status, &head.headers)?;
                    if let Some(status) = status_of(&head.headers) {
                        return Poll::Ready(Err(status));
                    }
                    self.responses = Responses::Body(body);
                    continue;
                }
                Responses::Body(body) => body,
            };
            if let Some(message) = self.deframer.next()? {
                return Poll::Ready(Ok(message));
            }
            match body.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(data)) => {
                    let data = data.map_err(|error| status_of_error(&error))?;
                    self.deframer.extend(&data);
                    // The window is as large as what is held here at most: a message is taken whole.
                    body.flow_control().release_capacity(data.len()).map_err(|error| status_of_error(&error))?;
                }
                Poll::Ready(None) => {
                    let trailers = ready!(body.poll_trailers(context));
                    let trailers = trailers.map_err(|error| status_of_error(&error))?.unwrap_or_default();
                    let status = status_of(&trailers)
                        .unwrap_or_else(|| Status::new(Code::Unknown, "Expected a status in the trailers, got none"));
                    if status.code == Code::Ok && !self.deframer.is_empty() {
                        let text = "Expected whole messages, got the end in the middle of one";
                        return Poll::Ready(Err(Status::new(Code::Internal, text)));
                    }
                    return Poll::Ready(Err(status));
                }
            }
        }
    }
}

impl Call for H2Call {
    fn push(&mut self, message: Bytes) {
        if self.send_closed || self.wants_half_close || self.end.is_some() {
            return;
        }
        match prefix(&message) {
            Ok(prefix) => self.queue.extend([prefix, message]),
            Err(status) => self.end = Some(Err(status)),
        }
    }

    fn half_close(&mut self) {
        self.wants_half_close = true;
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.send_closed || self.end.is_some() {
            return Poll::Ready(());
        }
        if ready!(self.poll_send(context)).is_err() {
            // Why is told where responses are read.
            self.send_closed = true;
            self.queue.clear();
        }
        Poll::Ready(())
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        if self.end.is_none() {
            match self.poll_next(context) {
                Poll::Ready(Ok(message)) => return Poll::Ready(Ok(Some(message))),
                Poll::Ready(Err(status)) => self.end = Some(if status.code == Code::Ok { Ok(()) } else { Err(status) }),
                Poll::Pending => {
                    let deadline = self.deadline.as_mut();
                    if !deadline.map_or(false, |deadline| deadline.as_mut().poll(context).is_ready()) {
                        return Poll::Pending;
                    }
                    self.requests.send_reset(Reason::CANCEL);
                    self.end = Some(Err(Status::new(
                        Code::DeadlineExceeded,
                        "Expected the end before the deadline, got none",
                    )));
                }
            }
            self.queue.clear();
        }
        match &self.end {
            Some(Err(status)) => Poll::Ready(Err(status.clone())),
            _ => Poll::Ready(Ok(None)),
        }
    }
}
