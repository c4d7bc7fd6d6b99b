//! What a call ended with, out of the headers and trailers of its response.

use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode;

use crate::status::{Code, Status};

/// Holds the response's headers: a status of HTTP or a content type that are not gRPC's, such as those of a proxy's page,
/// are the end of the call.
pub(super) fn check_response(status: StatusCode, headers: &HeaderMap) -> Result<(), Status> {
    if headers.contains_key("grpc-status") {
        return Ok(());
    }
    if status != StatusCode::OK {
        return Err(Status::new(
            code_of_http(status),
            format!("Expected a response of gRPC, got the HTTP status {status}"),
        ));
    }
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("");
    if content_type == "application/grpc"
        || content_type.starts_with("application/grpc+")
        || content_type.starts_with("application/grpc;")
    {
        return Ok(());
    }
    Err(Status::new(Code::Unknown, format!("Expected the content type application/grpc, got {content_type:?}")))
}

/// The status in trailers, or in headers without a body. `None` where there is none.
pub(super) fn status_of(headers: &HeaderMap) -> Option<Status> {
    let number = headers.get("grpc-status")?.to_str().ok().and_then(|text| text.parse().ok());
    let message = headers
        .get("grpc-message")
        .map_or_else(String::new, |value| percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned());
    let details = headers.get("grpc-status-details-bin").and_then(|value| from_base64(value.to_str().ok()?));
    Some(Status {
        code: number.map_or(Code::Unknown, Code::from_number),
        message,
        details: details.unwrap_or_default(),
    })
}

/// How a call ended whose stream was reset, or whose connection was lost.
pub(super) fn status_of_error(error: &h2::Error) -> Status {
    let code = match error.reason() {
        None | Some(h2::Reason::REFUSED_STREAM) => Code::Unavailable,
        Some(h2::Reason::NO_ERROR) if error.is_go_away() => Code::Unavailable,
        Some(h2::Reason::CANCEL) => Code::Cancelled,
        Some(h2::Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
        Some(h2::Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
        Some(_) => Code::Internal,
    };
    Status::new(code, format!("Expected the end of the call, got: {error}"))
}

/// gRPC's own table for responses that come from no server of gRPC.
fn code_of_http(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// Decodes the base64 of a header, with or without padding. `None` for what is none.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    base64::decode_config(text.trim_end_matches('='), base64::STANDARD_NO_PAD).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_status_is_read_with_its_message_decoded() {
        let sent = [("grpc-status", "3"), ("grpc-message", "caf%C3%A9, 100%"), ("grpc-status-details-bin", "AQL/")];
        let status = status_of(&headers(&sent)).unwrap();
        assert_eq!(status, Status { details: vec![1, 2, 255], ..Status::new(Code::InvalidArgument, "café, 100%") });
    }

    #[test]
    fn a_status_that_is_no_number_is_unknown() {
        assert_eq!(status_of(&headers(&[("grpc-status", "fine")])).unwrap().code, Code::Unknown);
        assert_eq!(status_of(&headers(&[])), None);
    }

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for (text, bytes) in
            [("", ""), ("Zg", "f"), ("Zg==", "f"), ("Zm8", "fo"), ("Zm8=", "fo"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("a b"), None);
    }

    #[test]
    fn a_page_of_a_proxy_is_an_error_and_not_a_response() {
        let html = headers(&[("content-type", "text/html")]);
        assert_eq!(check_response(StatusCode::BAD_GATEWAY, &html).unwrap_err().code, Code::Unavailable);
        assert_eq!(check_response(StatusCode::NOT_FOUND, &html).unwrap_err().code, Code::Unimplemented);
        assert_eq!(check_response(StatusCode::OK, &html).unwrap_err().code, Code::Unknown);
        assert!(check_response(StatusCode::OK, &headers(&[("content-type", "application/grpc+proto")])).is_ok());
    }
}
