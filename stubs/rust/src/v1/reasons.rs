// Generated from protos/monopath/v1. Do not edit: run generate.sh.

/// The number of the gRPC status code of a reason, and whether the same may succeed later, unchanged.
pub(crate) fn item_traits(reason: crate::v1::ItemErrorReason) -> (i32, bool) {
    match reason {
        crate::v1::ItemErrorReason::Unspecified => (2, false),
        crate::v1::ItemErrorReason::FieldInvalid => (3, false),
        crate::v1::ItemErrorReason::ImageEmpty => (3, false),
        crate::v1::ItemErrorReason::ImageUnsupported => (3, false),
        crate::v1::ItemErrorReason::ImageDamaged => (3, false),
        crate::v1::ItemErrorReason::ImageTooLarge => (3, false),
        crate::v1::ItemErrorReason::ImageBytesExceeded => (8, false),
        crate::v1::ItemErrorReason::ImageSizeInvalid => (3, false),
        crate::v1::ItemErrorReason::PixelsSizeMismatch => (3, false),
        crate::v1::ItemErrorReason::ContentDigestMismatch => (3, false),
        crate::v1::ItemErrorReason::TokenCountContradiction => (3, false),
        crate::v1::ItemErrorReason::FeaturesTooLarge => (8, false),
        crate::v1::ItemErrorReason::FeaturesMismatch => (3, false),
        crate::v1::ItemErrorReason::FeaturesNotFinite => (3, false),
        crate::v1::ItemErrorReason::FeaturesIncomplete => (3, false),
        crate::v1::ItemErrorReason::LocationUnsupported => (12, false),
        crate::v1::ItemErrorReason::HandleInvalid => (3, false),
        crate::v1::ItemErrorReason::Cancelled => (1, false),
        crate::v1::ItemErrorReason::Overloaded => (8, true),
        crate::v1::ItemErrorReason::DeviceOutOfMemory => (8, true),
        crate::v1::ItemErrorReason::Internal => (13, false),
    }
}

/// The number of the gRPC status code of a reason, and whether the same may succeed later, unchanged.
pub(crate) fn stream_traits(reason: crate::v1::StreamErrorReason) -> (i32, bool) {
    match reason {
        crate::v1::StreamErrorReason::Unspecified => (2, false),
        crate::v1::StreamErrorReason::ConfigInvalid => (3, false),
        crate::v1::StreamErrorReason::ConfigMissing => (3, false),
        crate::v1::StreamErrorReason::ConfigRepeated => (3, false),
        crate::v1::StreamErrorReason::PayloadUnknown => (3, false),
        crate::v1::StreamErrorReason::ItemIdInvalid => (3, false),
        crate::v1::StreamErrorReason::RequestInvalid => (3, false),
        crate::v1::StreamErrorReason::DeviceUnavailable => (9, false),
        crate::v1::StreamErrorReason::TransportUnavailable => (9, false),
        crate::v1::StreamErrorReason::Draining => (14, true),
        crate::v1::StreamErrorReason::Overloaded => (8, true),
        crate::v1::StreamErrorReason::ClientSilent => (4, false),
        crate::v1::StreamErrorReason::RepliesUnread => (4, false),
        crate::v1::StreamErrorReason::Internal => (13, false),
        crate::v1::StreamErrorReason::CredentialsInvalid => (16, false),
    }
}
