// Messages of a server, for tests to put together what a server says.
#ifndef MONOPATH_TESTS_MESSAGES_H_
#define MONOPATH_TESTS_MESSAGES_H_

#include <monopath/stream.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace monopath::tests {

using Response = v1::StreamDeferredCpuResponse;

inline const std::string kDigest(32, 'd');

inline v1::StreamLimits default_limits() {
  v1::StreamLimits limits;
  limits.set_max_unfinished_items(64);
  limits.set_max_unfinished_bytes(std::uint64_t{256} << 20);
  limits.set_max_feature_bytes(64 << 20);
  limits.set_max_request_bytes(64 << 20);
  return limits;
}

template <typename AnyResponse = Response>
AnyResponse ready(const v1::StreamLimits& limits = default_limits(),
                  v1::PreprocessingPath path = v1::PREPROCESSING_PATH_DEFERRED_CPU) {
  AnyResponse response;
  response.mutable_ready()->set_path(path);
  response.mutable_ready()->set_config_sha256(kDigest);
  *response.mutable_ready()->mutable_limits() = limits;
  return response;
}

// The plan of an item with `size_bytes` of UINT8.
template <typename AnyResponse = Response>
AnyResponse plan(std::int32_t id, std::uint32_t size_bytes,
                 v1::PreprocessingPath path = v1::PREPROCESSING_PATH_DEFERRED_CPU) {
  AnyResponse response;
  response.mutable_plan()->set_id(id);
  response.mutable_plan()->set_path(path);
  response.mutable_plan()->mutable_plan()->set_token_count(7);
  v1::TensorSpec& spec = *response.mutable_plan()->mutable_plan()->mutable_features();
  spec.set_data_type(v1::DATA_TYPE_UINT8);
  spec.add_shape(1);
  spec.add_shape(size_bytes);
  spec.set_size_bytes(size_bytes);
  return response;
}

template <typename AnyResponse = Response>
AnyResponse chunk(std::int32_t id, std::uint32_t offset_bytes, std::string data) {
  AnyResponse response;
  response.mutable_features()->set_id(id);
  response.mutable_features()->mutable_chunk()->set_offset_bytes(offset_bytes);
  response.mutable_features()->mutable_chunk()->set_data(std::move(data));
  return response;
}

template <typename AnyResponse = Response>
AnyResponse completion(std::int32_t id, v1::PreprocessingPath path = v1::PREPROCESSING_PATH_DEFERRED_CPU) {
  AnyResponse response;
  response.mutable_completion()->set_id(id);
  response.mutable_completion()->mutable_provenance()->set_path(path);
  response.mutable_completion()->mutable_provenance()->set_config_sha256(kDigest);
  return response;
}

inline Response group(std::initializer_list<Response> responses) {
  Response response;
  for (const Response& one : responses) *response.mutable_group()->add_responses() = one;
  return response;
}

inline Response item_error(std::int32_t id, v1::ItemErrorReason reason) {
  Response response;
  response.mutable_error()->set_id(id);
  response.mutable_error()->set_reason(reason);
  return response;
}

inline Response goaway() {
  Response response;
  response.mutable_goaway()->set_reason(v1::GOAWAY_REASON_DRAINING);
  return response;
}

inline Response failure(v1::StreamErrorReason reason, const std::string& message) {
  Response response;
  response.mutable_failure()->set_reason(reason);
  response.mutable_failure()->set_message(message);
  return response;
}

template <typename AnyResponse = Response>
AnyResponse summary(std::uint32_t completed_count, std::uint32_t failed_count = 0) {
  AnyResponse response;
  response.mutable_summary()->set_accepted_count(completed_count + failed_count);
  response.mutable_summary()->set_completed_count(completed_count);
  response.mutable_summary()->set_failed_count(failed_count);
  return response;
}

// A status with a reason of the contract, as the server writes it; the trailer has what else is given.
inline grpc::Status status_with_reason(grpc::StatusCode code, const std::string& message, const std::string& reason,
                                       const details::BadRequest& request = {}) {
  details::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("monopath.v1");
  details::Status rich;
  rich.set_code(code);
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>("ErrorInfo", info.SerializeAsString()),
                                    std::pair<std::string, std::string>("BadRequest", request.SerializeAsString())}) {
    google::protobuf::Any& detail = *rich.add_details();
    detail.set_type_url("type.googleapis.com/google.rpc." + name);
    detail.set_value(bytes);
  }
  return {code, message, rich.SerializeAsString()};
}

// The status of a refused config.
inline grpc::Status config_refused(const std::string& message, const std::string& field) {
  details::BadRequest request;
  request.add_field_violations()->set_field(field);
  request.mutable_field_violations(0)->set_description("Expected a number, got none");
  return status_with_reason(grpc::StatusCode::INVALID_ARGUMENT, message, "CONFIG_INVALID", request);
}

}  // namespace monopath::tests

#endif  // MONOPATH_TESTS_MESSAGES_H_
