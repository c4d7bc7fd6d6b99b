//! Streams that come to another end: refused, broken, dropped, lost.

use std::time::Duration;

use monopath::status::Code;
use monopath::v1::StreamErrorReason;
use monopath::{Config, DeferredCpu, Error, Stream, StreamError};
use tokio::sync::oneshot;

use crate::fake_server::{client, script, Script};
use crate::messages::{chunk, completion, config, failure, goaway, item, item_of, limits, plan, ready, OK};

/// What a stream came to that had one item.
async fn end_of(script: Script) -> Error {
    let (client, _) = client([script]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.send(item()).await.unwrap();
    loop {
        if let Err(error) = stream.next().await {
            // It stays.
            assert_eq!(stream.next().await.unwrap_err(), error);
            assert_eq!(stream.send(item()).await.unwrap_err(), error);
            return error;
        }
    }
}

async fn status_of(script: Script) -> StreamError {
    match end_of(script).await {
        Error::Stream(error) => error,
        other => panic!("Expected a status, got {other}"),
    }
}

async fn refusal_of(script: Script, config: Config) -> StreamError {
    let (client, _) = client([script]);
    match client.open::<DeferredCpu>(config).await {
        Err(Error::Stream(error)) => error,
        other => panic!("Expected a refusal, got {:?}", other.map(|_| ())),
    }
}

/// Opens, takes an item, and goes on as `then` says.
macro_rules! opened {
    ($side:ident => $then:expr) => {
        script(|mut $side| async move {
            $side.open(limits()).await;
            $side.expect_item().await;
            $then
        })
    };
}

fn moving() -> Script {
    opened!(side => {
        side.say(goaway()).await;
        side.complete(1, b"ab").await;
        side.finish(1, 0).await;
    })
}

/// A stream whose first item is done and whose server has asked to move.
async fn moved(next: Script) -> Stream<DeferredCpu> {
    let (client, _) = client([moving(), next]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.send(item()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    stream
}

#[tokio::test]
async fn a_refused_config_tells_its_reason_though_no_ready_came() {
    let refusing = script(|mut side| async move {
        side.expect_config().await;
        side.say(failure(StreamErrorReason::ConfigInvalid, "wrong")).await;
        side.expect_half_close().await;
        side.end(&[("grpc-status", "3"), ("grpc-message", "wrong")]);
    });
    let error = refusal_of(refusing, config()).await;
    assert_eq!(
        (error.code, error.reason.as_str(), error.message.as_str()),
        (Code::InvalidArgument, "CONFIG_INVALID", "wrong")
    );
    assert!(!error.retryable());
}

#[tokio::test]
async fn a_device_of_a_path_without_devices_is_refused_before_anything_is_sent() {
    let (client, seen) = client([]);
    let config = Config { device_uuid: Some("GPU-1".into()), ..config() };
    assert!(matches!(client.open::<DeferredCpu>(config).await, Err(Error::Invalid(_))));
    assert_eq!(seen.connections(), 0);
}

#[tokio::test]
async fn a_stream_that_is_lost_ends_with_unavailable() {
    let lost = opened!(side => side.reset(h2::Reason::REFUSED_STREAM));
    let error = status_of(lost).await;
    assert_eq!((error.code, error.retryable()), (Code::Unavailable, true));
}

#[tokio::test]
async fn a_failure_speaks_where_the_status_says_nothing() {
    let failing = opened!(side => {
        side.say(failure(StreamErrorReason::Draining, "the server is stopping")).await;
        side.expect_half_close().await;
        side.reset(h2::Reason::INTERNAL_ERROR);
    });
    let error = status_of(failing).await;
    assert_eq!((error.reason.as_str(), error.message.as_str()), ("DRAINING", "the server is stopping"));
}

#[tokio::test]
async fn a_server_that_breaks_the_grammar_is_not_believed_any_more() {
    let broken = [
        opened!(side => side.complete(2, b"ab").await),
        opened!(side => side.say(completion(1)).await),
        opened!(side => side.say(ready(limits(), b"digest")).await),
        opened!(side => { side.say(plan(1, 2)).await; side.say(plan(1, 2)).await }),
        opened!(side => { side.say(plan(1, 2)).await; side.say(chunk(1, 1, b"b")).await }),
        opened!(side => { side.say(plan(1, 2)).await; side.say(chunk(1, 0, b"abc")).await }),
        opened!(side => { side.say(plan(1, 2)).await; side.say(completion(1)).await }),
        opened!(side => side.say(plan(1, 2 << 30)).await),
        opened!(side => side.summarise(1, 0).await),
        opened!(side => { side.complete(1, b"ab").await; side.summarise(1, 0).await }),
        opened!(side => { side.complete(1, b"ab").await; side.end(OK) }),
    ];
    for (index, script) in broken.into_iter().enumerate() {
        let error = end_of(script).await;
        assert!(matches!(error, Error::Protocol(_)), "{index}: {error}");
    }
}

#[tokio::test]
async fn a_new_stream_with_another_config_is_not_used() {
    let mut stream = moved(script(|mut side| async move {
        side.expect_config().await;
        side.say(ready(limits(), b"another")).await;
        side.expect_half_close().await;
    }))
    .await;
    assert!(matches!(stream.send(item()).await, Err(Error::Moved(_))));
}

#[tokio::test]
async fn a_server_that_asks_to_move_before_it_is_ready_is_asked_again_and_not_for_ever() {
    let leaving = || {
        script(|mut side| async move {
            side.expect_config().await;
            side.say(goaway()).await;
            side.expect_half_close().await;
            side.end(OK);
        })
    };
    let opening = script(|mut side| async move {
        side.open(limits()).await;
        side.finish(0, 0).await;
    });
    let (once, _) = client([leaving(), opening]);
    once.open::<DeferredCpu>(config()).await.unwrap().finish().await.unwrap();
    let (always, seen) = client([leaving(), leaving(), leaving(), leaving()]);
    assert!(matches!(always.open::<DeferredCpu>(config()).await, Err(Error::Moved(_))));
    assert_eq!(seen.calls(), 3);
}

#[tokio::test]
async fn nothing_is_sent_behind_the_close() {
    let (client, _) = client([script(|mut side| async move {
        side.open(limits()).await;
        side.finish(0, 0).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.close_send();
    assert_eq!(stream.send(item()).await, Err(Error::Closed));
    assert!(stream.next().await.unwrap().is_none());
    stream.finish().await.unwrap();
}

#[tokio::test]
async fn a_dropped_stream_is_cancelled_with_what_is_in_flight() {
    let (told, cancelled) = oneshot::channel();
    let (client, _) = client([script(|mut side| async move {
        side.open(limits()).await;
        side.expect_item().await;
        told.send(side.cancelled().await).unwrap();
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.send(item()).await.unwrap();
    // It waits for a window, with a part of its item sent.
    assert!(tokio::time::timeout(Duration::from_millis(20), stream.send(item_of(20 << 20))).await.is_err());
    drop(stream);
    assert_eq!(cancelled.await.unwrap(), h2::Reason::CANCEL);
}

#[tokio::test]
async fn a_stream_ends_with_its_time_and_its_server_is_told() {
    let (told, seen) = oneshot::channel();
    let waiting = script(|mut side| async move {
        side.expect_config().await;
        let timeout = side.head.headers()["grpc-timeout"].to_str().unwrap().to_owned();
        told.send((timeout, side.cancelled().await)).unwrap();
    });
    let error = refusal_of(waiting, Config { timeout: Some(Duration::from_millis(500)), ..config() }).await;
    assert_eq!(error.code, Code::DeadlineExceeded);
    let (timeout, reason) = seen.await.unwrap();
    let milliseconds: u32 = timeout.strip_suffix('m').unwrap().parse().unwrap();
    assert!((1..=500).contains(&milliseconds));
    assert_eq!(reason, h2::Reason::CANCEL);
}

#[tokio::test]
async fn a_stream_without_items_that_has_moved_ends_with_its_time_too() {
    let (client, _) = client([moving()]);
    let config = Config { timeout: Some(Duration::from_secs(2)), ..config() };
    let mut stream = client.open::<DeferredCpu>(config).await.unwrap();
    stream.send(item()).await.unwrap();
    stream.next().await.unwrap().unwrap();
    match stream.next().await {
        Err(Error::Stream(error)) => assert_eq!(error.code, Code::DeadlineExceeded),
        other => panic!("Expected the deadline, got {other:?}"),
    }
}
