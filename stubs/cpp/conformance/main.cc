// Runs contract vectors against a server: one job a line on stdin, one answer a line on stdout, until stdin ends.

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "job.pb.h"
#include "monopath/error.h"
#include "monopath/v1/service.pb.h"
#include "raw_call.h"

namespace monopath::conformance {
namespace {

namespace json = google::protobuf::util;

void check(const google::protobuf::util::Status& status, const std::string& what) {
  if (!status.ok()) throw std::runtime_error("Expected " + what + ", got: " + status.ToString());
}

std::string to_json(const google::protobuf::Message& message) {
  json::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  check(json::MessageToJsonString(message, &text, options), "a message that JSON can say");
  return text;
}

void from_json(const std::string& text, google::protobuf::Message& message, bool ignore_unknown_fields = false) {
  json::JsonParseOptions options;
  options.ignore_unknown_fields = ignore_unknown_fields;
  check(json::JsonStringToMessage(text, &message, options), "the JSON of a " + message.GetTypeName());
}

std::unique_ptr<google::protobuf::Message> make(const google::protobuf::Descriptor* type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// The bytes of one request of a vector.
std::string request_bytes(const google::protobuf::Struct& request, const google::protobuf::Descriptor* type) {
  const auto wire = request.fields().find("wire");
  if (wire != request.fields().end()) {
    // A message whose JSON form has base64 in it, so that protobuf does the decoding.
    v1::FeatureChunk holder;
    google::protobuf::Struct named;
    (*named.mutable_fields())["data"] = wire->second;
    from_json(to_json(named), holder);
    return holder.data();
  }
  const std::unique_ptr<google::protobuf::Message> message = make(type);
  from_json(to_json(request), *message);
  return message->SerializeAsString();
}

google::protobuf::Struct response_json(const std::string& bytes, const google::protobuf::Descriptor* type) {
  const std::unique_ptr<google::protobuf::Message> message = make(type);
  if (!message->ParseFromString(bytes)) {
    throw std::runtime_error("Expected a " + type->full_name() + ", got other bytes");
  }
  google::protobuf::Struct object;
  from_json(to_json(*message), object);
  return object;
}

Answer answer(const std::shared_ptr<grpc::Channel>& channel, const Vector& vector) {
  // By the message and not by the pool alone, so that the generated code is linked.
  const google::protobuf::ServiceDescriptor* service =
      v1::PlanRequest::descriptor()->file()->FindServiceByName("PreprocessingService");
  const google::protobuf::MethodDescriptor* method = service->FindMethodByName(vector.method());
  if (method == nullptr) throw std::runtime_error("Expected a method of the contract, got " + vector.method());

  RawCall call;
  call.method = "/" + service->full_name() + "/" + method->name();
  call.awaits_first_response = method->client_streaming();
  call.half_close = vector.half_close();
  for (const google::protobuf::Struct& request : vector.requests()) {
    call.requests.push_back(request_bytes(request, method->input_type()));
  }
  const RawOutcome outcome = run(channel, call);

  Answer answer;
  answer.set_name(vector.name());
  for (const std::string& response : outcome.responses) {
    *answer.add_responses() = response_json(response, method->output_type());
  }
  const StatusDetails details = read_details(outcome.status);
  Status& status = *answer.mutable_status();
  status.set_code(code_name(outcome.status.error_code()));
  status.set_message(outcome.status.error_message());
  status.set_reason(details.reason);
  status.set_domain(details.domain);
  status.mutable_violations()->Assign(details.violations.begin(), details.violations.end());
  return answer;
}

void serve() {
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  for (std::string line; std::getline(std::cin, line);) {
    Job job;
    std::string reply;
    from_json(line, job, /*ignore_unknown_fields=*/true);
    std::shared_ptr<grpc::Channel>& channel = channels[job.address()];
    if (channel == nullptr) channel = grpc::CreateChannel(job.address(), grpc::InsecureChannelCredentials());
    try {
      reply = to_json(answer(channel, job.vector()));
    } catch (const std::exception& error) {
      Skip skip;
      skip.set_name(job.vector().name());
      skip.set_skipped(error.what());
      reply = to_json(skip);
    }
    // Flushed: the runner waits for it.
    std::cout << reply << std::endl;
  }
}

}  // namespace
}  // namespace monopath::conformance

int main() {
  try {
    monopath::conformance::serve();
  } catch (const std::exception& error) {
    std::cerr << "monopath_conformance: " << error.what() << '\n';
    return 1;
  }
}
