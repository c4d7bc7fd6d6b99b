//! The features of one item, in one buffer.

use std::marker::PhantomData;
use std::ops::Deref;
use std::{fmt, mem, slice};

use crate::float16::{bfloat16_to_f32, float16_to_f32};
use crate::v1::{CacheOutcome, DataType, ImagePlan, ItemTimings, Provenance};

/// The features of one item of the path `P`.
#[derive(Debug)]
pub struct Features<P> {
    /// Geometry, token count and tensor of the item.
    pub plan: ImagePlan,
    /// The tensor that `plan.features` describes: little-endian, row-major.
    pub bytes: FeatureBytes,
    /// From what and by what the features were made.
    pub provenance: Provenance,
    /// Where the time went.
    pub timings: ItemTimings,
    /// Whether the features were made for this item. Unspecified for `Local`.
    pub cache: CacheOutcome,
    pub(crate) path: PhantomData<P>,
}

impl<P> Features<P> {
    /// The type of each element.
    pub fn data_type(&self) -> DataType {
        self.plan.features.as_ref().map_or(DataType::Unspecified, |spec| spec.data_type())
    }

    /// The elements, where they are: `f32` for FLOAT32, the bits as `u16` for BFLOAT16 and FLOAT16, `u8` for UINT8. `None`
    /// for any other `T`.
    pub fn elements<T: Element>(&self) -> Option<&[T]> {
        T::DATA_TYPES.contains(&self.data_type()).then(|| self.bytes.elements())
    }

    /// The elements as numbers. UINT8 features are the pixel values, before normalisation.
    pub fn to_f32(&self) -> Vec<f32> {
        match self.data_type() {
            DataType::Uint8 => self.bytes.iter().map(|value| f32::from(*value)).collect(),
            DataType::Float32 => self.bytes.elements::<f32>().to_vec(),
            DataType::Bfloat16 => self.bytes.elements().iter().map(|bits| bfloat16_to_f32(*bits)).collect(),
            DataType::Float16 => self.bytes.elements().iter().map(|bits| float16_to_f32(*bits)).collect(),
            // A stream is refused before it has features of no type.
            DataType::Unspecified => Vec::new(),
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for f32 {}
}

/// What features can be shown as: `u8`, `u16`, `f32`.
pub trait Element: sealed::Sealed + Copy {
    /// The element types that are shown so.
    const DATA_TYPES: &'static [DataType];
}

impl Element for u8 {
    const DATA_TYPES: &'static [DataType] = &[DataType::Uint8];
}

impl Element for u16 {
    const DATA_TYPES: &'static [DataType] = &[DataType::Bfloat16, DataType::Float16];
}

impl Element for f32 {
    const DATA_TYPES: &'static [DataType] = &[DataType::Float32];
}

/// Bytes at an address that any element may have.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FeatureBytes {
    words: Vec<u64>,
    length: usize,
}

impl FeatureBytes {
    /// So many bytes, all zero.
    pub(crate) fn zeros(length: usize) -> Self {
        FeatureBytes { words: vec![0; (length + mem::size_of::<u64>() - 1) / mem::size_of::<u64>()], length }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the words are at least `length` bytes, all of them written, and every byte is a u8 and makes a u64.
        unsafe { slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.length) }
    }

    /// As many whole elements as there are.
    fn elements<T: Element>(&self) -> &[T] {
        // SAFETY: `Element` is sealed: no type is larger or more aligned than a word, and every value of its bits is one.
        unsafe { slice::from_raw_parts(self.words.as_ptr().cast(), self.length / mem::size_of::<T>()) }
    }
}

impl Deref for FeatureBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.elements()
    }
}

impl fmt::Debug for FeatureBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::TensorSpec;

    fn features(data_type: DataType, data: &[u8]) -> Features<()> {
        let spec =
            TensorSpec { data_type: data_type.into(), shape: vec![data.len() as i64], size_bytes: data.len() as u32 };
        let mut bytes = FeatureBytes::zeros(data.len());
        bytes.as_mut_slice().copy_from_slice(data);
        Features {
            plan: ImagePlan { features: Some(spec), ..ImagePlan::default() },
            bytes,
            provenance: Provenance::default(),
            timings: ItemTimings::default(),
            cache: CacheOutcome::Unspecified,
            path: PhantomData,
        }
    }

    #[test]
    fn elements_are_shown_as_their_type_and_as_no_other() {
        let found = features(DataType::Float32, &[1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat());
        assert_eq!(found.elements::<f32>(), Some(&[1.5, -2.0][..]));
        assert_eq!(found.elements::<u16>(), None);
        assert_eq!(found.elements::<u8>(), None);
        assert_eq!(found.bytes.len(), 8);
        assert_eq!(features(DataType::Uint8, &[1, 2, 3]).elements::<u8>(), Some(&[1, 2, 3][..]));
    }

    #[test]
    fn every_element_type_has_numbers() {
        assert_eq!(features(DataType::Uint8, &[0, 255]).to_f32(), [0.0, 255.0]);
        assert_eq!(features(DataType::Float32, &0.25_f32.to_le_bytes()).to_f32(), [0.25]);
        assert_eq!(features(DataType::Bfloat16, &0x3fc0_u16.to_le_bytes()).to_f32(), [1.5]);
        assert_eq!(features(DataType::Float16, &0x3e00_u16.to_le_bytes()).to_f32(), [1.5]);
    }

    #[test]
    fn a_length_that_is_no_number_of_words_is_kept() {
        for length in 0..20 {
            assert_eq!(FeatureBytes::zeros(length).len(), length);
        }
    }
}
