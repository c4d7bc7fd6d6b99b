//! Messages in the byte stream of a call: each behind five bytes, a flag for compression and its length.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::status::{Code, Status};

const PREFIX_BYTES: usize = 5;
/// What gRPC's libraries take if they are not told otherwise; the contract's responses stay far below it.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The prefix of a message.
pub(super) fn prefix(message: &Bytes) -> Result<Bytes, Status> {
    let length = u32::try_from(message.len()).map_err(|_| {
        let text = format!("Expected a message of less than 4 GiB, got {} bytes", message.len());
        Status::new(Code::ResourceExhausted, text)
    })?;
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES);
    bytes.put_u8(0);
    bytes.put_u32(length);
    Ok(bytes.freeze())
}

/// Cuts messages out of the bytes that come.
#[derive(Default)]
pub(super) struct Deframer {
    /// What came of the next message.
    buffer: BytesMut,
}

impl Deframer {
    /// Takes bytes.
    pub(super) fn extend(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// The next message, if all of it is there.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let mut prefix = match self.buffer.get(..PREFIX_BYTES) {
            Some(prefix) => prefix,
            None => return Ok(None),
        };
        let flag = prefix.get_u8();
        let length = prefix.get_u32() as usize;
        if flag != 0 {
            return Err(Status::new(
                Code::Internal,
                format!("Expected an uncompressed message, got one with the flag {flag}"),
            ));
        }
        if length > MAX_MESSAGE_BYTES {
            let text = format!("Expected a message of at most {MAX_MESSAGE_BYTES} bytes, got {length}");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        if self.buffer.len() < PREFIX_BYTES + length {
            self.buffer.reserve(PREFIX_BYTES + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Nothing is left of a message that did not come whole.
    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let framed =
            messages.iter().map(|message| [&prefix(&Bytes::copy_from_slice(message)).unwrap()[..], *message].concat());
        framed.collect::<Vec<_>>().concat()
    }

    #[test]
    fn messages_come_out_as_they_went_in_however_the_bytes_are_cut() {
        let messages: [&[u8]; 4] = [b"one", b"", &[7; 300], b"four"];
        let bytes = framed(&messages);
        for step in [1, 2, 5, 6, 100, bytes.len()] {
            let mut deframer = Deframer::default();
            let mut found = Vec::new();
            for part in bytes.chunks(step) {
                deframer.extend(part);
                while let Some(message) = deframer.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages);
            assert!(deframer.is_empty());
        }
    }

    #[test]
    fn a_message_that_is_not_whole_is_not_given_and_not_forgotten() {
        let mut deframer = Deframer::default();
        deframer.extend(&framed(&[b"whole"])[..7]);
        assert_eq!(deframer.next().unwrap(), None);
        assert!(!deframer.is_empty());
    }

    #[test]
    fn a_message_over_the_limit_is_refused_before_its_memory_is_taken() {
        let mut deframer = Deframer::default();
        deframer.extend(&[0, 0, 0x40, 0, 1]);
        assert_eq!(deframer.next().unwrap_err().code, Code::ResourceExhausted);
    }

    #[test]
    fn a_compressed_message_is_refused() {
        let mut deframer = Deframer::default();
        deframer.extend(&[1, 0, 0, 0, 0]);
        assert_eq!(deframer.next().unwrap_err().code, Code::Internal);
    }
}
