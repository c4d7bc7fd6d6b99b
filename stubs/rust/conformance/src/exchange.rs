//! One call, as a good client makes it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use monopath::status::Status;
use monopath::transport::{next_message, Call, Channel, Transport};

const JOB_TIMEOUT: Duration = Duration::from_secs(60);

/// What came of a call: its responses, and what it ended with, `None` for OK.
pub type Outcome = (Vec<Bytes>, Option<Status>);

/// Sends the first request, waits for the first response, then writes the rest while it reads.
pub async fn exchange(address: &str, method: &str, requests: Vec<Bytes>, half_close: bool) -> Outcome {
    let channel = Channel::new(address);
    let mut call = match channel.open(method, Some(Instant::now() + JOB_TIMEOUT)).await {
        Ok(call) => call,
        Err(status) => return (Vec::new(), Some(status)),
    };
    let is_silent = requests.is_empty();
    let mut requests = requests.into_iter();
    let is_unary = !method.rsplit('/').next().unwrap_or("").starts_with("Stream");
    requests.by_ref().take(1).for_each(|first| call.push(first));
    if is_unary || is_silent {
        push_rest(&mut *call, &mut requests, half_close);
    }
    let mut responses = Vec::new();
    loop {
        match next_message(&mut *call).await {
            Ok(Some(response)) => responses.push(response),
            Ok(None) => return (responses, None),
            Err(status) => return (responses, Some(status)),
        }
        if responses.len() == 1 {
            push_rest(&mut *call, &mut requests, half_close);
        }
    }
}

fn push_rest(call: &mut dyn Call, requests: &mut impl Iterator<Item = Bytes>, half_close: bool) {
    requests.for_each(|request| call.push(request));
    if half_close {
        call.half_close();
    }
}
