//! One vector, from its JSON to the JSON of what came of it.

use bytes::Bytes;
use monopath::status::{Code, Status};
use monopath::v1;
use prost::Message;
use serde_json::{json, Value};

use crate::exchange::exchange;
use crate::protojson;
use crate::schema::{Method, Schema};

/// Runs the vector of a job. The error says why it was not run.
pub async fn run(schema: &Schema, job: &Value) -> Result<(Vec<Value>, Value), String> {
    let vector = &job["vector"];
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| format!("Expected a text, got {value}"));
    let method = schema.method(&text(&vector["method"])?)?;
    let requests = vector["requests"].as_array().ok_or("Expected a list of requests, got none")?;
    let requests =
        requests.iter().map(|request| encode_request(schema, method, request)).collect::<Result<Vec<_>, _>>()?;
    let half_close = vector["half_close"].as_bool().unwrap_or(true);
    let (responses, status) = exchange(&text(&job["address"])?, &method.path, requests, half_close).await;
    let responses = responses
        .into_iter()
        .map(|response| protojson::decode(schema, &method.response, &through_type(&method.response, response)?));
    Ok((responses.collect::<Result<Vec<_>, _>>()?, status_json(&status.unwrap_or_else(|| Status::new(Code::Ok, "")))))
}

/// The bytes of a vector's request: those that it gives, or those of its protobuf JSON.
fn encode_request(schema: &Schema, method: &Method, request: &Value) -> Result<Bytes, String> {
    if let Some(wire) = request.get("wire") {
        let decoded = wire.as_str().map(base64::decode);
        return decoded.and_then(Result::ok).map(Bytes::from).ok_or_else(|| format!("Expected base64, got {wire}"));
    }
    through_type(&method.request, protojson::encode(schema, &method.request, request)?.into())
}

/// Reads a message with the generated type of its name, and writes it again: so that these types are what is held.
fn through_type(name: &str, bytes: Bytes) -> Result<Bytes, String> {
    fn through<M: Message + Default>(bytes: Bytes) -> Result<Bytes, String> {
        let message = M::decode(bytes).map_err(|error| format!("Expected a message that prost reads, got {error}"))?;
        Ok(message.encode_to_vec().into())
    }
    match name {
        ".monopath.v1.StreamLocalRequest" => through::<v1::StreamLocalRequest>(bytes),
        ".monopath.v1.StreamLocalResponse" => through::<v1::StreamLocalResponse>(bytes),
        ".monopath.v1.StreamDeferredCudaRequest" => through::<v1::StreamDeferredCudaRequest>(bytes),
        ".monopath.v1.StreamDeferredCudaResponse" => through::<v1::StreamDeferredCudaResponse>(bytes),
        ".monopath.v1.StreamDeferredCpuRequest" => through::<v1::StreamDeferredCpuRequest>(bytes),
        ".monopath.v1.StreamDeferredCpuResponse" => through::<v1::StreamDeferredCpuResponse>(bytes),
        ".monopath.v1.PlanRequest" => through::<v1::PlanRequest>(bytes),
        ".monopath.v1.PlanResponse" => through::<v1::PlanResponse>(bytes),
        ".monopath.v1.GetCapabilitiesRequest" => through::<v1::GetCapabilitiesRequest>(bytes),
        ".monopath.v1.GetCapabilitiesResponse" => through::<v1::GetCapabilitiesResponse>(bytes),
        other => Err(format!("Expected a request or a response of the contract, got {other}")),
    }
}

fn status_json(status: &Status) -> Value {
    let details = status.details();
    let violation =
        |wrong: &monopath::status::Violation| json!({"field": wrong.field, "description": wrong.description});
    json!({
        "code": status.code.name(),
        "message": status.message,
        "reason": details.reason,
        "domain": details.domain,
        "violations": details.violations.iter().map(violation).collect::<Vec<_>>(),
    })
}
