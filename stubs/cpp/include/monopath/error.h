// What goes wrong with a stream, as exceptions. What goes wrong with an item is a value: `Result::error`.
#ifndef MONOPATH_ERROR_H_
#define MONOPATH_ERROR_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "monopath/status_details.pb.h"
#include "monopath/v1/error.pb.h"
#include "monopath/v1/options.pb.h"

namespace monopath {

// Whatever goes wrong between this client and a server.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The server broke the contract's grammar; nothing of the stream after that can be trusted.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

// The server asked to move to a new stream, and no new stream could carry on.
class StreamMoved : public Error {
 public:
  using Error::Error;
};

// "INVALID_ARGUMENT"; "OK"; the number of a code that gRPC does not have.
inline std::string code_name(grpc::StatusCode code) {
  if (code == grpc::StatusCode::OK) return "OK";
  const std::string prefix = "GRPC_CODE_";
  const std::string name = v1::GrpcCode_Name(static_cast<v1::GrpcCode>(code));
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::to_string(static_cast<int>(code));
}

// "IMAGE_DAMAGED"; the number of a reason that this release does not know.
inline std::string reason_name(v1::ItemErrorReason reason) {
  const std::string prefix = "ITEM_ERROR_REASON_";
  const std::string name = v1::ItemErrorReason_Name(reason);
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::to_string(static_cast<int>(reason));
}

// "CONFIG_INVALID"; the number of a reason that this release does not know.
inline std::string reason_name(v1::StreamErrorReason reason) {
  const std::string prefix = "STREAM_ERROR_REASON_";
  const std::string name = v1::StreamErrorReason_Name(reason);
  return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::to_string(static_cast<int>(reason));
}

// What the trailer `grpc-status-details-bin` says; all of it empty where there is none.
struct StatusDetails {
  // `google.rpc.ErrorInfo.reason`.
  std::string reason;
  // `google.rpc.ErrorInfo.domain`: "monopath.v1" for the contract's own reasons.
  std::string domain;
  // Of `google.rpc.BadRequest`.
  std::vector<v1::FieldViolation> violations;
  // Of `google.rpc.RetryInfo`.
  std::optional<std::chrono::nanoseconds> retry_after;
};

// Reads the details of a status. Those of other services, and damaged ones, are left out.
inline StatusDetails read_details(const grpc::Status& status) {
  StatusDetails read;
  details::Status rich;
  if (!rich.ParseFromString(status.error_details())) return read;
  for (const google::protobuf::Any& detail : rich.details()) {
    const std::string type = detail.type_url().substr(detail.type_url().rfind('/') + 1);
    if (type == "google.rpc.ErrorInfo") {
      details::ErrorInfo info;
      if (!info.ParseFromString(detail.value())) continue;
      read.reason = info.reason();
      read.domain = info.domain();
    } else if (type == "google.rpc.BadRequest") {
      details::BadRequest request;
      if (!request.ParseFromString(detail.value())) continue;
      read.violations.assign(request.field_violations().begin(), request.field_violations().end());
    } else if (type == "google.rpc.RetryInfo") {
      details::RetryInfo retry;
      if (!retry.ParseFromString(detail.value())) continue;
      read.retry_after =
          std::chrono::seconds(retry.retry_delay().seconds()) + std::chrono::nanoseconds(retry.retry_delay().nanos());
    }
  }
  return read;
}

// A stream, or a unary call, ended with a status other than OK.
class StreamError : public Error {
 public:
  StreamError(grpc::StatusCode code, std::string message, StatusDetails details)
      : Error(text(code, message, details)),
        code_(code),
        message_(std::move(message)),
        reason_(std::move(details.reason)),
        violations_(std::move(details.violations)),
        retry_after_(details.retry_after) {}

  grpc::StatusCode code() const noexcept { return code_; }
  // The status's own text.
  const std::string& message() const noexcept { return message_; }
  // A `StreamErrorReason` without its prefix: "CONFIG_INVALID". Empty where the server gave none.
  const std::string& reason() const noexcept { return reason_; }
  // Every wrong field, where fields are wrong.
  const std::vector<v1::FieldViolation>& violations() const noexcept { return violations_; }
  // When the same may be sent again, where the server said so.
  std::optional<std::chrono::nanoseconds> retry_after() const noexcept { return retry_after_; }

 private:
  static std::string text(grpc::StatusCode code, const std::string& message, const StatusDetails& details) {
    std::string all = (details.reason.empty() ? code_name(code) : details.reason) + ": " + message;
    for (const v1::FieldViolation& violation : details.violations) {
      all += "\n  " + violation.field() + ": " + violation.description();
    }
    return all;
  }

  grpc::StatusCode code_;
  std::string message_;
  std::string reason_;
  std::vector<v1::FieldViolation> violations_;
  std::optional<std::chrono::nanoseconds> retry_after_;
};

// The error of a call that ended with `status`, which is not OK.
inline StreamError error_of(const grpc::Status& status) {
  StatusDetails details = read_details(status);
  if (details.domain != "monopath.v1") details.reason.clear();
  return StreamError(status.error_code(), status.error_message(), std::move(details));
}

// The error of a stream that told its failure before it ended with `status`, be that OK. The failure speaks where the
// status says nothing, such as when the connection was lost behind it.
inline StreamError error_of(const grpc::Status& status, const v1::StreamFailure& failure) {
  if (!status.ok()) {
    StreamError error = error_of(status);
    if (!error.reason().empty()) return error;
  }
  grpc::StatusCode code = status.error_code();
  if (status.ok()) {
    const auto* value = v1::StreamErrorReason_descriptor()->FindValueByNumber(failure.reason());
    code = value == nullptr ? grpc::StatusCode::UNKNOWN
                            : static_cast<grpc::StatusCode>(value->options().GetExtension(v1::traits).code());
  }
  StatusDetails details;
  details.reason = reason_name(failure.reason());
  details.violations.assign(failure.violations().begin(), failure.violations().end());
  return StreamError(code, failure.message(), std::move(details));
}

}  // namespace monopath

#endif  // MONOPATH_ERROR_H_
