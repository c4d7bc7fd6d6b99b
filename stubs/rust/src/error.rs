//! What goes wrong, of an item and of a stream.

use std::fmt;
use std::time::Duration;

use crate::reasons;
use crate::status::{Code, Status, Violation};
use crate::v1::{self, ItemErrorReason, StreamErrorReason, StreamFailure};

const DOMAIN: &str = "monopath.v1";
const STREAM_REASON_PREFIX: &str = "STREAM_ERROR_REASON_";
const ITEM_REASON_PREFIX: &str = "ITEM_ERROR_REASON_";

/// What a stream or a call ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server or the connection ended it.
    Stream(StreamError),
    /// The server broke the contract's grammar; nothing after that can be trusted.
    Protocol(String),
    /// The server asked to move to a new stream, and no new stream could carry on.
    Moved(String),
    /// More was to be sent behind `close_send`.
    Closed,
    /// The caller's item or config can't be sent. Nothing was, and a stream goes on.
    Invalid(String),
}

impl Error {
    pub(crate) fn protocol(text: impl fmt::Display) -> Self {
        Error::Protocol(text.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Stream(error) => error.fmt(formatter),
            Error::Protocol(text) => write!(formatter, "the server broke the protocol: {text}"),
            Error::Moved(text) => write!(formatter, "no new stream could carry on: {text}"),
            Error::Closed => formatter.write_str("Expected a stream that is open, got one that was closed"),
            Error::Invalid(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<StreamError> for Error {
    fn from(error: StreamError) -> Self {
        Error::Stream(error)
    }
}

/// A status other than OK, with what the server told beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    /// The status.
    pub code: Code,
    /// A [`StreamErrorReason`] by its name without the prefix, such as "CONFIG_INVALID". Empty where none was given, such as
    /// where no server was reached.
    pub reason: String,
    /// The same in words.
    pub message: String,
    /// All wrong fields, where fields are wrong.
    pub violations: Vec<Violation>,
    /// When the same may be tried again, where the server said so.
    pub retry_after: Option<Duration>,
}

impl StreamError {
    /// The same may succeed later, here or at another replica, without being changed.
    pub fn retryable(&self) -> bool {
        if self.reason.is_empty() {
            return self.code == Code::Unavailable;
        }
        match StreamErrorReason::from_str_name(&format!("{STREAM_REASON_PREFIX}{}", self.reason)) {
            Some(reason) => reasons::stream_traits(reason).1,
            None => self.retry_after.is_some(),
        }
    }

    /// What a call ended with. `failure` is what the server told in the stream before, if it did; it speaks where the status
    /// says nothing, such as where the connection was lost behind it.
    pub(crate) fn of_status(status: Status, failure: Option<StreamFailure>) -> Self {
        let details = status.details();
        let reason = if details.domain == DOMAIN { details.reason } else { String::new() };
        match failure {
            Some(failure) if reason.is_empty() => StreamError { code: status.code, ..StreamError::of_failure(failure) },
            _ => StreamError {
                code: status.code,
                reason,
                message: status.message,
                violations: details.violations,
                retry_after: details.retry_after,
            },
        }
    }

    /// What a stream told of its failure, with the status that its reason has.
    pub(crate) fn of_failure(failure: StreamFailure) -> Self {
        let reason = StreamErrorReason::from_i32(failure.reason);
        StreamError {
            code: reason.map_or(Code::Unknown, |known| Code::from_number(reasons::stream_traits(known).0)),
            reason: reason.map_or_else(
                || failure.reason.to_string(),
                |known| known.as_str_name().trim_start_matches(STREAM_REASON_PREFIX).to_owned(),
            ),
            message: failure.message,
            violations: failure.violations.into_iter().map(Violation::from).collect(),
            retry_after: None,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = if self.reason.is_empty() { self.code.name() } else { &self.reason };
        write!(formatter, "{reason}: {}", self.message)?;
        self.violations.iter().try_for_each(|wrong| write!(formatter, "\n  {}: {}", wrong.field, wrong.description))
    }
}

impl std::error::Error for StreamError {}

/// The end of an item that has no features.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// The item.
    pub id: i32,
    /// The item's label, as sent.
    pub label: String,
    /// Why: an [`ItemErrorReason`], or a number that this release does not know.
    pub reason: i32,
    /// The same in words, with what was expected and what was found.
    pub message: String,
    /// The field of the item that is wrong, where one is: "image.pixels.format".
    pub field: String,
    /// When the same item may be sent again, where the server said so.
    pub retry_after: Option<Duration>,
}

impl ItemError {
    pub(crate) fn of_message(sent: v1::ItemError, label: String) -> Self {
        ItemError {
            id: sent.id,
            label,
            reason: sent.reason,
            message: sent.message,
            field: sent.field,
            retry_after: sent.retry_after.and_then(|delay| Duration::try_from(delay).ok()),
        }
    }

    /// Why. `None` for a reason that this release does not know.
    pub fn reason(&self) -> Option<ItemErrorReason> {
        ItemErrorReason::from_i32(self.reason)
    }

    /// The class of the error, as a status; an item has no status of its own. `Unknown` for a reason that is not known.
    pub fn code(&self) -> Code {
        self.reason().map_or(Code::Unknown, |reason| Code::from_number(reasons::item_traits(reason).0))
    }

    /// The same item may succeed later without being changed.
    pub fn retryable(&self) -> bool {
        self.reason().map_or(self.retry_after.is_some(), |reason| reasons::item_traits(reason).1)
    }
}

impl fmt::Display for ItemError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "item {}", self.id)?;
        if !self.label.is_empty() {
            write!(formatter, " ({})", self.label)?;
        }
        match self.reason() {
            Some(reason) => write!(formatter, ": {}", reason.as_str_name().trim_start_matches(ITEM_REASON_PREFIX))?,
            None => write!(formatter, ": reason {}", self.reason)?,
        }
        if !self.field.is_empty() {
            write!(formatter, " [{}]", self.field)?;
        }
        write!(formatter, ": {}", self.message)
    }
}

impl std::error::Error for ItemError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn item_error(reason: i32) -> ItemError {
        let sent = v1::ItemError { id: 7, reason, message: "Expected a, got b".into(), ..v1::ItemError::default() };
        ItemError::of_message(sent, "cat.jpg".into())
    }

    #[test]
    fn an_item_error_says_which_item_and_why() {
        let error = ItemError { field: "image".into(), ..item_error(ItemErrorReason::ImageEmpty.into()) };
        assert_eq!(error.to_string(), "item 7 (cat.jpg): IMAGE_EMPTY [image]: Expected a, got b");
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(!error.retryable());
        assert!(item_error(ItemErrorReason::Overloaded.into()).retryable());
    }

    #[test]
    fn a_reason_of_a_newer_server_is_a_number() {
        let error = item_error(1234);
        assert_eq!(error.to_string(), "item 7 (cat.jpg): reason 1234: Expected a, got b");
        assert_eq!((error.reason(), error.code(), error.retryable()), (None, Code::Unknown, false));
        assert!(ItemError { retry_after: Some(Duration::from_secs(1)), ..error }.retryable());
    }

    #[test]
    fn what_the_stream_told_speaks_where_the_status_says_nothing() {
        let failure = StreamFailure {
            reason: StreamErrorReason::Draining.into(),
            message: "the server is stopping".into(),
            violations: vec![],
        };
        let error = StreamError::of_status(Status::new(Code::Unavailable, "reset"), Some(failure.clone()));
        assert_eq!((error.reason.as_str(), error.message.as_str()), ("DRAINING", "the server is stopping"));
        assert!(error.retryable());
        assert_eq!(StreamError::of_failure(failure).code, Code::Unavailable);
    }

    #[test]
    fn an_error_without_a_reason_is_retryable_where_no_server_was_reached() {
        assert!(StreamError::of_status(Status::new(Code::Unavailable, ""), None).retryable());
        assert!(!StreamError::of_status(Status::new(Code::Internal, ""), None).retryable());
    }
}
