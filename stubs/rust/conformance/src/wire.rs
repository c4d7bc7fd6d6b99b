//! The few forms of protobuf's wire format, written and read without a message's type.

/// The value of a field on the wire.
#[derive(Clone, Debug, PartialEq)]
pub enum Wire {
    /// Integers, enums and bools.
    Varint(u64),
    /// `double`.
    Fixed64(u64),
    /// Texts, bytes, messages, packed lists.
    Bytes(Vec<u8>),
    /// `float`.
    Fixed32(u32),
}

/// Writes a field.
pub fn put(bytes: &mut Vec<u8>, number: i32, wire: &Wire) {
    let kind = match wire {
        Wire::Varint(_) => 0,
        Wire::Fixed64(_) => 1,
        Wire::Bytes(_) => 2,
        Wire::Fixed32(_) => 5,
    };
    put_varint(bytes, (number as u64) << 3 | kind);
    put_value(bytes, wire);
}

/// Writes a value without its tag, as in a packed list.
pub fn put_value(bytes: &mut Vec<u8>, wire: &Wire) {
    match wire {
        Wire::Varint(value) => put_varint(bytes, *value),
        Wire::Fixed64(value) => bytes.extend(value.to_le_bytes()),
        Wire::Bytes(value) => {
            put_varint(bytes, value.len() as u64);
            bytes.extend(value);
        }
        Wire::Fixed32(value) => bytes.extend(value.to_le_bytes()),
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads the fields of a message, in their order. `None` for what is none.
pub fn fields(mut bytes: &[u8]) -> Option<Vec<(i32, Wire)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = take_varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Varint(take_varint(&mut bytes)?),
            1 => Wire::Fixed64(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(take_varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?.to_vec())
            }
            5 => Wire::Fixed32(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().ok()?)),
            _ => return None,
        };
        found.push((i32::try_from(tag >> 3).ok()?, wire));
    }
    Some(found)
}

/// Takes the values of a packed list, each read by `next`.
pub fn packed(mut bytes: &[u8], next: impl Fn(&mut &[u8]) -> Option<Wire>) -> Option<Vec<Wire>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(next(&mut bytes)?);
    }
    Some(found)
}

pub fn take<'b>(bytes: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let taken = bytes.get(..length)?;
    *bytes = &bytes[length..];
    Some(taken)
}

pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
