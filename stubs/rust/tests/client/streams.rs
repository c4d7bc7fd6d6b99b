//! Streams that come to a good end.

use std::time::Duration;

use bytes::Bytes;
use monopath::v1::stream_deferred_cpu_request::Payload as Asked;
use monopath::v1::stream_local_request::Payload as AskedLocal;
use monopath::v1::{
    local_item_features, stream_local_response, ItemErrorReason, PreprocessingPath, Ready, StreamDeferredCpuRequest,
    StreamLimits, StreamLocalRequest, StreamLocalResponse, Summary,
};
use monopath::{DeferredCpu, Event, Local, LocalFeatures};
use prost::Message;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fake_server::{client, script, Script};
use crate::messages::{config, goaway, item, item_error, item_of, limits, OK};

/// Opens, completes so many items as they come, and ends.
fn completing(count: u32) -> Script {
    script(move |mut side| async move {
        side.open(limits()).await;
        for _ in 0..count {
            let id = side.expect_item().await;
            side.complete(id, b"ab").await;
        }
        side.finish(count, 0).await;
    })
}

#[tokio::test]
async fn map_gives_every_result_and_finish_the_summary() {
    let (client, _) = client([completing(3)]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    assert_eq!(stream.ready().config_sha256, &b"digest"[..]);
    let mut results = stream.map([item(), item(), item()]);
    let mut ids = Vec::new();
    while let Some(result) = results.next().await.unwrap() {
        assert_eq!(result.label, "a label");
        assert_eq!(&*result.end.unwrap().bytes, b"ab");
        ids.push(result.id);
    }
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(stream.finish().await.unwrap().completed_count, 3);
}

#[tokio::test]
async fn a_stream_moves_to_another_task() {
    let (client, _) = client([completing(1)]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    let task = tokio::spawn(async move {
        stream.send(item()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        stream.finish().await
    });
    assert_eq!(task.await.unwrap().unwrap().completed_count, 1);
}

#[tokio::test]
async fn a_plan_is_told_before_its_features_are_made() {
    let (client, _) = client([completing(1)]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.send(item()).await.unwrap();
    stream.close_send();
    match stream.next_event().await.unwrap() {
        Some(Event::Plan { id: 1, plan, .. }) => assert_eq!(plan.token_count, 5),
        other => panic!("Expected a plan, got {other:?}"),
    }
    assert!(matches!(stream.next_event().await.unwrap(), Some(Event::Result(_))));
    assert!(stream.next_event().await.unwrap().is_none());
}

#[tokio::test]
async fn large_items_and_large_results_do_not_wait_for_each_other() {
    // Each way more than all windows and pipes between the two hold. The server reads an item only when the last one's
    // features are written.
    let size_bytes = 6 << 20;
    let (client, _) = client([script(move |mut side| async move {
        side.open(limits()).await;
        let features: Vec<u8> = (0..size_bytes).map(|index| (index % 251) as u8).collect();
        for _ in 0..8 {
            let id = side.expect_item().await;
            side.complete(id, &features).await;
        }
        side.finish(8, 0).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    for _ in 0..8 {
        stream.send(item_of(size_bytes)).await.unwrap();
    }
    stream.close_send();
    let mut result_count = 0;
    while let Some(result) = stream.next().await.unwrap() {
        let features = result.end.unwrap();
        assert!(features.bytes.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8));
        result_count += 1;
    }
    assert_eq!(result_count, 8);
}

#[tokio::test]
async fn an_item_waits_until_the_server_has_room() {
    let (client, _) = client([script(|mut side| async move {
        side.open(StreamLimits { max_unfinished_items: 2, ..limits() }).await;
        side.expect_item().await;
        side.expect_item().await;
        side.complete(2, b"two").await;
        side.complete(1, b"one").await;
        let id = side.expect_item().await;
        side.complete(id, b"three").await;
        side.finish(3, 0).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    let mut results = stream.map([item(), item(), item()]);
    let mut ids = Vec::new();
    while let Some(result) = results.next().await.unwrap() {
        ids.push(result.id);
    }
    assert_eq!(ids, [2, 1, 3]);
}

#[tokio::test]
async fn a_bad_item_is_a_value_and_its_neighbour_is_done() {
    let (client, _) = client([script(|mut side| async move {
        side.open(limits()).await;
        let id = side.expect_item().await;
        side.say(item_error(id, ItemErrorReason::ImageDamaged)).await;
        let id = side.expect_item().await;
        side.complete(id, b"ab").await;
        side.finish(1, 1).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    let mut results = stream.map([item(), item()]);
    let error = results.next().await.unwrap().unwrap().end.unwrap_err();
    assert_eq!((error.reason(), error.label.as_str()), (Some(ItemErrorReason::ImageDamaged), "a label"));
    assert!(results.next().await.unwrap().unwrap().end.is_ok());
    assert!(results.next().await.unwrap().is_none());
}

#[tokio::test]
async fn behind_goaway_the_rest_goes_to_a_new_stream_and_ids_go_on() {
    let moving = script(|mut side| async move {
        side.open(limits()).await;
        let id = side.expect_item().await;
        side.say(goaway()).await;
        side.complete(id, b"ab").await;
        side.finish(1, 0).await;
    });
    let (client, seen) = client([moving, completing(2)]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    stream.send(item()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().id, 1);
    let mut results = stream.map([item(), item()]);
    let mut ids = Vec::new();
    while let Some(result) = results.next().await.unwrap() {
        ids.push(result.id);
    }
    assert_eq!(ids, [2, 3]);
    assert_eq!(stream.finish().await.unwrap().accepted_count, 3);
    assert_eq!(seen.calls(), 2);
}

#[tokio::test]
async fn an_item_too_large_for_a_request_fails_alone_and_in_its_turn() {
    let (client, _) = client([script(|mut side| async move {
        side.open(StreamLimits { max_request_bytes: 10_000, ..limits() }).await;
        assert_eq!([side.expect_item().await, side.expect_item().await], [1, 3]);
        side.complete(1, b"ab").await;
        side.complete(3, b"ab").await;
        side.finish(2, 0).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config().as_sent()).await.unwrap();
    for size_bytes in [3, 10_000, 3] {
        stream.send(item_of(size_bytes)).await.unwrap();
    }
    assert!(stream.next().await.unwrap().unwrap().end.is_ok());
    let refused = stream.next().await.unwrap().unwrap();
    assert_eq!((refused.id, refused.end.unwrap_err().reason()), (2, Some(ItemErrorReason::ImageBytesExceeded)));
    assert!(stream.next().await.unwrap().unwrap().end.is_ok());
    stream.finish().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_item_has_the_end_that_the_server_gives_it() {
    let (client, _) = client([script(|mut side| async move {
        side.open(limits()).await;
        let id = side.expect_item().await;
        let request = side.hear::<StreamDeferredCpuRequest>().await.unwrap();
        assert!(matches!(request.payload, Some(Asked::Cancellation(cancelled)) if cancelled.id == id));
        side.say(item_error(id, ItemErrorReason::Cancelled)).await;
        side.finish(0, 1).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    let id = stream.send(item()).await.unwrap();
    stream.cancel(id).await.unwrap();
    let error = stream.next().await.unwrap().unwrap().end.unwrap_err();
    assert_eq!(error.reason(), Some(ItemErrorReason::Cancelled));
    // One that has ended is not cancelled again: the script would hear it in place of the half-close.
    stream.cancel(id).await.unwrap();
    stream.finish().await.unwrap();
}

#[tokio::test]
async fn a_future_that_is_dropped_loses_nothing_and_sends_nothing_twice() {
    let size_bytes = 2 << 20;
    let (start, started) = oneshot::channel::<()>();
    let (client, _) = client([script(move |mut side| async move {
        side.open(limits()).await;
        started.await.unwrap();
        for expected in [1, 2] {
            assert_eq!(side.expect_item().await, expected);
            side.complete(expected, b"ab").await;
        }
        side.finish(2, 0).await;
    })]);
    let mut stream = client.open::<DeferredCpu>(config()).await.unwrap();
    // More than the windows hold: it cannot end before the server reads.
    assert!(timeout(Duration::from_millis(20), stream.send(item_of(size_bytes))).await.is_err());
    assert!(timeout(Duration::from_millis(20), stream.next()).await.is_err());
    start.send(()).unwrap();
    assert_eq!(stream.send(item()).await.unwrap(), 2);
    for expected in [1, 2] {
        assert_eq!(stream.next().await.unwrap().unwrap().id, expected);
    }
    assert_eq!(stream.finish().await.unwrap().completed_count, 2);
}

#[tokio::test]
async fn finished_features_are_cut_to_what_a_request_may_hold_and_arrive_whole() {
    let sent: Bytes = (0..100_000).map(|index| (index % 251) as u8).collect();
    let expected = sent.clone();
    let (client, _) = client([script(move |mut side| async move {
        side.hear::<StreamLocalRequest>().await.unwrap();
        let limits = Some(StreamLimits { max_request_bytes: 20_000, ..limits() });
        let ready = Ready { path: PreprocessingPath::Local.into(), limits, ..Ready::default() };
        let say = |payload| StreamLocalResponse { payload: Some(payload) };
        side.say(say(stream_local_response::Payload::Ready(ready))).await;
        let item = side.hear::<StreamLocalRequest>().await.unwrap();
        let item = match item.payload {
            Some(AskedLocal::Item(item)) => item,
            other => panic!("Expected an item, got {other:?}"),
        };
        assert_eq!(item.features.unwrap().size_bytes, 100_000);
        let mut received = Vec::new();
        while received.len() < expected.len() {
            let request = side.hear::<StreamLocalRequest>().await.unwrap();
            assert!(request.encoded_len() <= 20_000);
            let location = match request.payload {
                Some(AskedLocal::ItemFeatures(part)) => part.location,
                other => panic!("Expected features, got {other:?}"),
            };
            let chunk = match location {
                Some(local_item_features::Location::Chunk(chunk)) => chunk,
                other => panic!("Expected a chunk, got {other:?}"),
            };
            assert_eq!(chunk.offset_bytes as usize, received.len());
            received.extend_from_slice(&chunk.data);
        }
        assert_eq!(received, expected);
        let reason = ItemErrorReason::FeaturesMismatch.into();
        let error = monopath::v1::ItemError { id: item.id, reason, ..monopath::v1::ItemError::default() };
        side.say(say(stream_local_response::Payload::Error(error))).await;
        assert_eq!(side.hear::<StreamLocalRequest>().await, None);
        let summary = Summary { accepted_count: 1, failed_count: 1, ..Summary::default() };
        side.say(say(stream_local_response::Payload::Summary(summary))).await;
        side.end(OK);
    })]);
    let mut stream = client.open::<Local>(config()).await.unwrap();
    stream.send(LocalFeatures { data: sent, ..LocalFeatures::default() }).await.unwrap();
    let error = stream.next().await.unwrap().unwrap().end.unwrap_err();
    assert_eq!(error.reason(), Some(ItemErrorReason::FeaturesMismatch));
    assert_eq!(stream.finish().await.unwrap().failed_count, 1);
}
