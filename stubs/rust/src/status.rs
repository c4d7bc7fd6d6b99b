//! What a call of gRPC ends with.

use std::fmt;
use std::time::Duration;

use prost::Message;

/// The canonical status codes of gRPC, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

const CODES: [(Code, &str); 17] = [
    (Code::Ok, "OK"),
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

impl Code {
    /// The code of a number; `Unknown` for a number that is none.
    pub fn from_number(number: i32) -> Self {
        usize::try_from(number).ok().and_then(|index| CODES.get(index)).map_or(Code::Unknown, |(code, _)| *code)
    }

    /// The name that gRPC's documentation writes: `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        CODES[self as usize].1
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a call ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The class of the end.
    pub code: Code,
    /// The same in words.
    pub message: String,
    /// The trailer `grpc-status-details-bin`: a `google.rpc.Status`. Empty where none came.
    pub details: Vec<u8>,
}

impl Status {
    /// A status without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Status { code, message: message.into(), details: Vec::new() }
    }

    /// Reads the details. What cannot be read, or is of another kind, is left out.
    pub fn details(&self) -> Details {
        let mut found = Details::default();
        let status = RpcStatus::decode(self.details.as_slice()).unwrap_or_default();
        for detail in status.details {
            match detail.type_url.rsplit('/').next() {
                Some("google.rpc.ErrorInfo") => {
                    if let Ok(info) = ErrorInfo::decode(detail.value.as_slice()) {
                        found.reason = info.reason;
                        found.domain = info.domain;
                    }
                }
                Some("google.rpc.BadRequest") => {
                    if let Ok(wrong) = BadRequest::decode(detail.value.as_slice()) {
                        found.violations.extend(wrong.violations.into_iter().map(Violation::from));
                    }
                }
                Some("google.rpc.RetryInfo") => {
                    if let Ok(retry) = RetryInfo::decode(detail.value.as_slice()) {
                        found.retry_after = retry.delay.and_then(|delay| Duration::try_from(delay).ok());
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// What a status tells beside its code and its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// `google.rpc.ErrorInfo.reason`. Empty where none came.
    pub reason: String,
    /// `google.rpc.ErrorInfo.domain`.
    pub domain: String,
    /// The fields of the `google.rpc.BadRequest`.
    pub violations: Vec<Violation>,
    /// When the same may be tried again, where the server said so.
    pub retry_after: Option<Duration>,
}

/// A wrong or missing field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, as its author wrote it: `media_proc_cfg.patch_size`.
    pub field: String,
    /// What was expected and what was found.
    pub description: String,
}

impl From<FieldViolation> for Violation {
    fn from(sent: FieldViolation) -> Self {
        Violation { field: sent.field, description: sent.description }
    }
}

impl From<crate::v1::FieldViolation> for Violation {
    fn from(sent: crate::v1::FieldViolation) -> Self {
        Violation { field: sent.field, description: sent.description }
    }
}

// The few messages of `google.rpc` that are read.

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    delay: Option<prost_types::Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(name: &str, message: &impl Message) -> prost_types::Any {
        prost_types::Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
    }

    #[test]
    fn all_details_of_a_status_are_read_and_others_are_left_out() {
        let violation = FieldViolation { field: "processor".into(), description: "Expected one, got none".into() };
        let sent = RpcStatus {
            details: vec![
                detail("Help", &ErrorInfo::default()),
                detail("ErrorInfo", &ErrorInfo { reason: "CONFIG_INVALID".into(), domain: "monopath.v1".into() }),
                detail("BadRequest", &BadRequest { violations: vec![violation.clone()] }),
                detail(
                    "RetryInfo",
                    &RetryInfo { delay: Some(prost_types::Duration { seconds: 2, nanos: 500_000_000 }) },
                ),
            ],
        };
        let status = Status { details: sent.encode_to_vec(), ..Status::new(Code::InvalidArgument, "no") };
        let expected = Details {
            reason: "CONFIG_INVALID".into(),
            domain: "monopath.v1".into(),
            violations: vec![violation.into()],
            retry_after: Some(Duration::from_millis(2500)),
        };
        assert_eq!(status.details(), expected);
    }

    #[test]
    fn details_that_are_no_message_are_none() {
        let status = Status { details: vec![0xff, 0xff], ..Status::new(Code::Internal, "no") };
        assert_eq!(status.details(), Details::default());
    }

    #[test]
    fn a_number_that_is_no_code_is_unknown() {
        assert_eq!(
            [-1, 0, 16, 17].map(Code::from_number),
            [Code::Unknown, Code::Ok, Code::Unauthenticated, Code::Unknown]
        );
        for (number, (code, _)) in (0_i32..).zip(CODES) {
            assert_eq!(Code::from_number(number), code);
        }
    }
}
