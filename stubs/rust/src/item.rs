//! What is sent on streams.

use std::marker::PhantomData;

use bytes::Bytes;

use crate::v1::image_source::Content;
use crate::v1::{
    encoded_image, raw_pixels, EncodedImage, GridThw, ImageSource, PixelFormat, RawPixels, Size, TileGrid,
};

/// One image for the path `P`, which is `DeferredCpu` or `DeferredCuda`.
#[derive(Clone, Debug, PartialEq)]
pub struct Image<P> {
    /// Free text that comes back with the item's result.
    pub label: String,
    /// The file or the pixels.
    pub source: ImageSource,
    /// W3C trace context of this item. Empty: none.
    pub traceparent: String,
    /// SHA-256 that the image's bytes must have, checked before they are decoded: 32 bytes, or none.
    pub expected_sha256: Bytes,
    path: PhantomData<P>,
}

impl<P> Image<P> {
    /// An image file, as it lies on disk.
    pub fn encoded(label: impl Into<String>, file: impl Into<Bytes>) -> Self {
        let image = EncodedImage { location: Some(encoded_image::Location::Data(file.into())) };
        Image::new(label, Content::Encoded(image))
    }

    /// Decoded pixels.
    pub fn pixels(label: impl Into<String>, pixels: Pixels) -> Self {
        let image = RawPixels {
            width_px: pixels.width_px,
            height_px: pixels.height_px,
            format: pixels.format.into(),
            location: Some(raw_pixels::Location::Data(pixels.data)),
        };
        Image::new(label, Content::Pixels(image))
    }

    fn new(label: impl Into<String>, content: Content) -> Self {
        Image {
            label: label.into(),
            source: ImageSource { content: Some(content) },
            traceparent: String::new(),
            expected_sha256: Bytes::new(),
            path: PhantomData,
        }
    }

    /// Bytes of the file or of the pixels.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let data = match &self.source.content {
            Some(Content::Encoded(EncodedImage { location: Some(encoded_image::Location::Data(data)) })) => data.len(),
            Some(Content::Pixels(RawPixels { location: Some(raw_pixels::Location::Data(data)), .. })) => data.len(),
            _ => 0,
        };
        data as u64
    }
}

/// Decoded pixels: 8 bits a channel, channels interleaved, lines top to bottom without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Pixels {
    /// Pixels per line.
    pub width_px: u32,
    /// Lines.
    pub height_px: u32,
    /// Channels of a pixel and their order.
    pub format: PixelFormat,
    /// Width x height x channels bytes.
    pub data: Bytes,
}

/// An item of the path `Local`: features that this side has finished. The server holds them to its own plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalFeatures {
    /// Free text that comes back with the item's result.
    pub label: String,
    /// Size of the image, after the config's orientation policy was applied.
    pub original_size: Size,
    /// The patch grid; all zero for a family that has none.
    pub grid_thw: GridThw,
    /// The tiles, for families that have them.
    pub tile_grid: Option<TileGrid>,
    /// Tokens that the encoder's output will have.
    pub token_count: u32,
    /// Element type of `data`, a [`DataType`](crate::DataType); it may be another than the stream's.
    pub data_type: crate::DataType,
    /// Rows, channels, height and width of a row's pixels; frames behind the channels.
    pub shape: Vec<i64>,
    /// The tensor: little-endian, row-major.
    pub data: Bytes,
    /// W3C trace context of this item. Empty: none.
    pub traceparent: String,
    /// SHA-256 of the source image, if it is wanted in the provenance: 32 bytes, or none.
    pub content_sha256: Bytes,
}
