// One call of any method, in bytes: what a request is made of is not looked at, and so is what a schema cannot say.
#ifndef MONOPATH_CONFORMANCE_RAW_CALL_H_
#define MONOPATH_CONFORMANCE_RAW_CALL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace monopath::conformance {

// What to send.
struct RawCall {
  // "/package.Service/Method".
  std::string method;
  std::vector<std::string> requests;
  // Nothing but the first request is sent before the first response came.
  bool awaits_first_response = true;
  // Half-close behind the last request.
  bool half_close = true;
  std::chrono::seconds timeout{60};
};

// What came of it.
struct RawOutcome {
  std::vector<std::string> responses;
  grpc::Status status;
};

// Makes the call, reading while it writes, and waits for its end.
RawOutcome run(const std::shared_ptr<grpc::Channel>& channel, const RawCall& call);

}  // namespace monopath::conformance

#endif  // MONOPATH_CONFORMANCE_RAW_CALL_H_
