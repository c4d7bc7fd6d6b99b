//! gRPC over HTTP/2: what the other tests do not see of it.

use monopath::status::Code;
use monopath::transport::Channel;
use monopath::v1::{GetCapabilitiesRequest, GetCapabilitiesResponse};
use monopath::{Client, Error, StreamError};
use tokio::net::UnixListener;
use tokio::sync::oneshot;

use crate::fake_server::{channel, client, script, Script};
use crate::messages::OK;

fn answering(version: &'static str) -> Script {
    script(move |mut side| async move {
        side.hear::<GetCapabilitiesRequest>().await.unwrap();
        side.say(GetCapabilitiesResponse { server_version: version.into(), ..GetCapabilitiesResponse::default() })
            .await;
        side.end(OK);
    })
}

async fn refusal_of(script: Script) -> StreamError {
    let (client, _) = client([script]);
    match client.capabilities().await {
        Err(Error::Stream(error)) => error,
        other => panic!("Expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn a_unary_call_says_what_the_protocol_asks_for() {
    let asked = script(|mut side| async move {
        assert_eq!(side.head.uri().path(), "/monopath.v1.PreprocessingService/GetCapabilities");
        assert_eq!(side.head.uri().authority().unwrap(), "server.test");
        assert_eq!(side.head.headers()["content-type"], "application/grpc");
        assert_eq!(side.head.headers()["te"], "trailers");
        assert_eq!(side.head.headers()["authorization"], "Bearer secret");
        side.hear::<GetCapabilitiesRequest>().await.unwrap();
        side.say(GetCapabilitiesResponse::default()).await;
        side.end(OK);
    });
    let (channel, _) = channel([asked]);
    Client::new(channel.bearer_token("secret").unwrap()).capabilities().await.unwrap();
}

#[test]
fn a_token_that_no_header_can_carry_is_refused() {
    assert!(Channel::new("127.0.0.1:1").bearer_token("one\ntwo").is_none());
}

#[tokio::test]
async fn calls_share_a_connection_and_one_that_is_lost_is_replaced() {
    let (client, seen) = client([answering("1"), answering("2")]);
    for expected in ["1", "2"] {
        assert_eq!(client.capabilities().await.unwrap().server_version, expected);
    }
    assert_eq!(seen.connections(), 1);
    // The server has no script for a third call, and closes its end.
    match client.capabilities().await {
        Err(Error::Stream(lost)) => assert_eq!(lost.code, Code::Unavailable),
        other => panic!("Expected a lost call, got {other:?}"),
    }
    let _ = client.capabilities().await;
    assert_eq!(seen.connections(), 2);
}

#[tokio::test]
async fn a_call_survives_a_goaway_and_the_next_one_has_a_new_connection() {
    let (start, started) = oneshot::channel::<()>();
    let leaving = script(|mut side| async move {
        side.leave();
        started.await.unwrap();
        side.say(GetCapabilitiesResponse { server_version: "1".into(), ..GetCapabilitiesResponse::default() }).await;
        side.end(OK);
    });
    let (client, seen) = client([leaving, answering("2"), answering("2"), answering("2")]);
    let next = async {
        // The connection that is left may still take a call before its end is told.
        while seen.connections() < 2 {
            if let Ok(answer) = client.capabilities().await {
                assert_eq!(answer.server_version, "2");
            }
        }
        start.send(()).unwrap();
    };
    let (first, ()) = tokio::join!(client.capabilities(), next);
    assert_eq!(first.unwrap().server_version, "1");
}

#[tokio::test]
async fn a_status_in_headers_alone_is_read() {
    let fields = [("content-type", "application/grpc"), ("grpc-status", "16"), ("grpc-message", "caf%C3%A9")];
    let error = refusal_of(script(move |mut side| async move { side.respond(200, &fields) })).await;
    assert_eq!((error.code, error.message.as_str()), (Code::Unauthenticated, "café"));
}

#[tokio::test]
async fn a_page_of_a_proxy_is_unavailable_and_no_response() {
    let error = refusal_of(script(|mut side| async move { side.respond(502, &[("content-type", "text/html")]) })).await;
    assert_eq!((error.code, error.retryable()), (Code::Unavailable, true));
}

#[tokio::test]
async fn the_end_without_a_status_is_unknown_and_no_good_one() {
    let error = refusal_of(script(|mut side| async move { side.end(&[]) })).await;
    assert_eq!(error.code, Code::Unknown);
}

#[tokio::test]
async fn a_good_status_without_a_response_is_no_good_end() {
    let error = refusal_of(script(|mut side| async move { side.end(OK) })).await;
    assert_eq!(error.code, Code::Internal);
}

#[tokio::test]
async fn a_reset_is_read_as_the_status_that_the_protocol_gives_it() {
    for (reason, code) in [
        (h2::Reason::REFUSED_STREAM, Code::Unavailable),
        (h2::Reason::CANCEL, Code::Cancelled),
        (h2::Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
        (h2::Reason::INTERNAL_ERROR, Code::Internal),
    ] {
        assert_eq!(refusal_of(script(move |mut side| async move { side.reset(reason) })).await.code, code);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_whatever_the_address() {
    let directory = std::env::temp_dir().join(format!("monopath-{}", std::process::id()));
    for address in ["127.0.0.1:1".to_owned(), "nowhere".to_owned(), format!("unix:{}", directory.display())] {
        match Client::connect(&address).capabilities().await {
            Err(Error::Stream(error)) => {
                assert_eq!(error.code, Code::Unavailable);
                assert!(error.message.starts_with(&format!("Expected a server at {address}, got: ")), "{error}");
            }
            other => panic!("Expected no server at {address}, got {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_unix_socket_is_an_address_too() {
    let path = std::env::temp_dir().join(format!("monopath-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let client = Client::connect(&format!("unix:{}", path.display()));
    let server = async {
        let (socket, _) = listener.accept().await.unwrap();
        drop(h2::server::handshake(socket).await);
    };
    let (_, answer) = tokio::join!(server, client.capabilities());
    std::fs::remove_file(&path).unwrap();
    // It was reached, and hung up.
    assert!(matches!(answer, Err(Error::Stream(error)) if !error.message.contains("Expected a server at")));
}
