//! Protobuf JSON of the contract's messages. prost has none; a schema in hand, it is little.

use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto};
use serde_json::{Map, Value};

use crate::schema::{has_presence, is_repeated, Schema};
use crate::wire::{self, Wire};

const DURATION: &str = ".google.protobuf.Duration";

/// The bytes of a message, out of its JSON.
pub fn encode(schema: &Schema, name: &str, value: &Value) -> Result<Vec<u8>, String> {
    if name == DURATION {
        return encode_duration(value);
    }
    let object = value.as_object().ok_or_else(|| format!("Expected an object for {name}, got {value}"))?;
    let message = schema.message(name)?;
    let mut bytes = Vec::new();
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let field = field_of(message, key).ok_or_else(|| format!("Expected a field of {name}, got {key:?}"))?;
        if is_repeated(field) {
            let values = value.as_array().ok_or_else(|| format!("Expected a list for {key}, got {value}"))?;
            let values =
                values.iter().map(|value| encode_value(schema, field, value)).collect::<Result<Vec<_>, _>>()?;
            put_list(&mut bytes, field.number(), &values);
        } else {
            let wire = encode_value(schema, field, value)?;
            let is_default = match &wire {
                Wire::Varint(value) | Wire::Fixed64(value) => *value == 0,
                Wire::Fixed32(value) => *value == 0,
                Wire::Bytes(value) => value.is_empty(),
            };
            if has_presence(field) || !is_default {
                wire::put(&mut bytes, field.number(), &wire);
            }
        }
    }
    Ok(bytes)
}

/// The JSON of a message; fields without presence are written even at their default.
pub fn decode(schema: &Schema, name: &str, bytes: &[u8]) -> Result<Value, String> {
    let fields = wire::fields(bytes).ok_or_else(|| format!("Expected the bytes of {name}, got others"))?;
    if name == DURATION {
        return Ok(decode_duration(&fields));
    }
    let mut object = Map::new();
    for field in &schema.message(name)?.field {
        let mut values = Vec::new();
        for (_, wire) in fields.iter().filter(|(number, _)| *number == field.number()) {
            for wire in
                unpacked(field, wire).ok_or_else(|| format!("Expected a list for {}, got other bytes", field.name()))?
            {
                values.push(decode_value(schema, field, &wire)?);
            }
        }
        let value = if is_repeated(field) {
            Value::Array(values)
        } else if let Some(last) = values.pop() {
            last
        } else if has_presence(field) {
            continue;
        } else {
            decode_value(schema, field, &default_of(field))?
        };
        object.insert(field.json_name().to_owned(), value);
    }
    Ok(Value::Object(object))
}

fn field_of<'m>(message: &'m DescriptorProto, key: &str) -> Option<&'m FieldDescriptorProto> {
    message.field.iter().find(|field| field.json_name() == key || field.name() == key)
}

fn put_list(bytes: &mut Vec<u8>, number: i32, values: &[Wire]) {
    if let Some(Wire::Bytes(_)) = values.first() {
        values.iter().for_each(|value| wire::put(bytes, number, value));
    } else if !values.is_empty() {
        let mut packed = Vec::new();
        values.iter().for_each(|value| wire::put_value(&mut packed, value));
        wire::put(bytes, number, &Wire::Bytes(packed));
    }
}

/// The values of a field, of which a list has several in one.
fn unpacked(field: &FieldDescriptorProto, wire: &Wire) -> Option<Vec<Wire>> {
    match (default_of(field), wire) {
        (Wire::Varint(_), Wire::Bytes(bytes)) => wire::packed(bytes, |rest| wire::take_varint(rest).map(Wire::Varint)),
        (Wire::Fixed64(_), Wire::Bytes(bytes)) => {
            wire::packed(bytes, |rest| Some(Wire::Fixed64(u64::from_le_bytes(wire::take(rest, 8)?.try_into().ok()?))))
        }
        (Wire::Fixed32(_), Wire::Bytes(bytes)) => {
            wire::packed(bytes, |rest| Some(Wire::Fixed32(u32::from_le_bytes(wire::take(rest, 4)?.try_into().ok()?))))
        }
        _ => Some(vec![wire.clone()]),
    }
}

fn default_of(field: &FieldDescriptorProto) -> Wire {
    match field.r#type() {
        Type::Double | Type::Fixed64 | Type::Sfixed64 => Wire::Fixed64(0),
        Type::Float | Type::Fixed32 | Type::Sfixed32 => Wire::Fixed32(0),
        Type::String | Type::Bytes | Type::Message | Type::Group => Wire::Bytes(Vec::new()),
        _ => Wire::Varint(0),
    }
}

fn encode_value(schema: &Schema, field: &FieldDescriptorProto, value: &Value) -> Result<Wire, String> {
    let found = match field.r#type() {
        Type::Message => return encode(schema, field.type_name(), value).map(Wire::Bytes),
        Type::String => value.as_str().map(|text| Wire::Bytes(text.as_bytes().to_vec())),
        Type::Bytes => value.as_str().and_then(|text| base64::decode(text).ok()).map(Wire::Bytes),
        Type::Bool => value.as_bool().map(|value| Wire::Varint(value.into())),
        Type::Double => number_of(value).map(|value| Wire::Fixed64(value.to_bits())),
        Type::Enum => match value.as_str() {
            Some(text) => schema.number(field.type_name(), text).map(i64::from),
            None => value.as_i64(),
        }
        .map(|number| Wire::Varint(number as u64)),
        Type::Sint32 => integer_of(value)
            .and_then(|value| i32::try_from(value).ok())
            .map(|value| Wire::Varint(u64::from(((value << 1) ^ (value >> 31)) as u32))),
        // A negative one is written in 64 bits, whatever its type.
        Type::Int32 => {
            integer_of(value).and_then(|value| i32::try_from(value).ok()).map(|value| Wire::Varint(value as u64))
        }
        Type::Int64 => {
            integer_of(value).and_then(|value| i64::try_from(value).ok()).map(|value| Wire::Varint(value as u64))
        }
        Type::Uint32 => {
            integer_of(value).and_then(|value| u32::try_from(value).ok()).map(|value| Wire::Varint(value.into()))
        }
        Type::Uint64 => integer_of(value).and_then(|value| u64::try_from(value).ok()).map(Wire::Varint),
        other => return Err(format!("Expected a type that the contract uses, got {other:?}")),
    };
    found.ok_or_else(|| format!("Expected a {:?} for {}, got {value}", field.r#type(), field.name()))
}

fn decode_value(schema: &Schema, field: &FieldDescriptorProto, wire: &Wire) -> Result<Value, String> {
    Ok(match (field.r#type(), wire) {
        (Type::Message, Wire::Bytes(bytes)) => decode(schema, field.type_name(), bytes)?,
        (Type::String, Wire::Bytes(bytes)) => String::from_utf8_lossy(bytes).into(),
        (Type::Bytes, Wire::Bytes(bytes)) => base64::encode(bytes).into(),
        (Type::Bool, Wire::Varint(value)) => (*value != 0).into(),
        (Type::Double, Wire::Fixed64(bits)) => number_to_json(f64::from_bits(*bits)),
        (Type::Enum, Wire::Varint(value)) => {
            let number = *value as i32;
            schema.value(field.type_name(), number).map_or_else(|| number.into(), Value::from)
        }
        (Type::Sint32, Wire::Varint(value)) => (((*value as u32) >> 1) as i32 ^ -((*value & 1) as i32)).into(),
        (Type::Int32, Wire::Varint(value)) => (*value as i32).into(),
        (Type::Int64, Wire::Varint(value)) => (*value as i64).to_string().into(),
        (Type::Uint32, Wire::Varint(value)) => (*value as u32).into(),
        (Type::Uint64, Wire::Varint(value)) => value.to_string().into(),
        (other, _) => return Err(format!("Expected a {other:?} for {}, got {wire:?}", field.name())),
    })
}

/// An integer, which JSON may say as a text or with a fraction of zero.
fn integer_of(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => {
            number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from)).or_else(|| {
                number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 1e18).map(|value| value as i128)
            })
        }
        _ => None,
    }
}

fn number_of(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(text) => text.parse().ok(),
        None => value.as_f64(),
    }
}

fn number_to_json(value: f64) -> Value {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        value.into()
    }
}

/// "1.5s"
fn encode_duration(value: &Value) -> Result<Vec<u8>, String> {
    let parse = |text: &str| -> Option<(i64, i64)> {
        let text = text.strip_suffix('s')?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let nanos: i64 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
        Some((whole.parse().ok()?, if text.starts_with('-') { -nanos } else { nanos }))
    };
    let expected = || format!("Expected a duration, got {value}");
    let (seconds, nanos) = value.as_str().and_then(parse).ok_or_else(expected)?;
    let mut bytes = Vec::new();
    for (number, part) in [(1, seconds), (2, nanos)] {
        if part != 0 {
            wire::put(&mut bytes, number, &Wire::Varint(part as u64));
        }
    }
    Ok(bytes)
}

fn decode_duration(fields: &[(i32, Wire)]) -> Value {
    let part = |wanted| {
        let found = fields.iter().rev().find(|(number, _)| *number == wanted);
        if let Some((_, Wire::Varint(value))) = found {
            *value as i64
        } else {
            0
        }
    };
    let (seconds, nanos) = (part(1), part(2));
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}s", seconds.abs(), nanos.abs()).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a message's JSON comes back as, by way of its bytes.
    fn round_trip(name: &str, value: Value) -> Value {
        let schema = Schema::of_contract().unwrap();
        decode(&schema, name, &encode(&schema, name, &value).unwrap()).unwrap()
    }

    #[test]
    fn numbers_come_back_as_json_writes_them() {
        let sent =
            json!({"spec": {"dataType": "DATA_TYPE_UINT8", "shape": ["-1", 9007199254740993_i64], "sizeBytes": 7}});
        let spec = json!({"dataType": "DATA_TYPE_UINT8", "shape": ["-1", "9007199254740993"], "sizeBytes": 7});
        assert_eq!(round_trip(".monopath.v1.Tensor", sent), json!({"spec": spec, "data": ""}));
        let crop = json!({"leftPx": -3, "topPx": i32::MIN, "widthPx": 1, "heightPx": u32::MAX});
        assert_eq!(round_trip(".monopath.v1.Crop", crop.clone()), crop);
    }

    #[test]
    fn doubles_come_back_to_the_last_bit() {
        for value in [json!(-0.0), json!(3.4028234663852886e38), json!(0.1), json!("NaN"), json!("-Infinity")] {
            let found = round_trip(".monopath.v1.ChannelValues", json!({ "red": value }));
            assert_eq!(found["red"].to_string(), value.to_string());
        }
    }

    #[test]
    fn an_unknown_number_of_an_enum_stays_and_a_default_is_left_out_only_where_it_has_presence() {
        let found = round_trip(".monopath.v1.OutputConfig", json!({"dataType": 99, "inline": {"chunkBytes": 0}}));
        assert_eq!(found["dataType"], 99);
        assert_eq!(found["order"], "RESULT_ORDER_UNSPECIFIED");
        assert_eq!(found["inline"], json!({"chunkBytes": 0}));
        assert_eq!(found.get("sharedMemory"), None);
    }

    #[test]
    fn durations_have_a_sign_and_a_fraction() {
        for (text, expected) in [("1.5s", "1.500000000s"), ("-0.25s", "-0.250000000s"), ("3s", "3.000000000s")] {
            let found = round_trip(".monopath.v1.ItemTimings", json!({ "queued": text }));
            assert_eq!(found["queued"], expected);
        }
    }

    #[test]
    fn what_the_schema_does_not_know_is_refused() {
        let schema = Schema::of_contract().unwrap();
        for wrong in [json!({"widthPixels": 1}), json!({"widthPx": -1}), json!({"widthPx": 1.5}), json!([])] {
            assert!(encode(&schema, ".monopath.v1.Size", &wrong).is_err());
        }
    }
}
