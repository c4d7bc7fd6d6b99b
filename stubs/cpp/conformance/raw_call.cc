#include "raw_call.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <future>
#include <mutex>
#include <utility>

namespace monopath::conformance {
namespace {

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// gRPC calls the On... methods from its own threads, reading and writing ones at the same time.
class Reactor : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Reactor(const RawCall& call) : call_(call) {}

  RawOutcome run(grpc::GenericStub& stub) {
    context_.set_deadline(std::chrono::system_clock::now() + call_.timeout);
    stub.PrepareBidiStreamingCall(&context_, call_.method, grpc::StubOptions(), this);
    // Writes are started out of reactions to reads: the call must not be taken for done in between.
    AddHold();
    StartRead(&incoming_);
    advance();
    StartCall();
    outcome_.status = done_.get_future().get();
    return std::move(outcome_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return stop_writing();
    outcome_.responses.push_back(bytes_of(incoming_));
    {
      const std::lock_guard lock(mutex_);
      answered_ = true;
    }
    advance();
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
    }
    if (!ok) return stop_writing();
    advance();
  }

  void OnDone(const grpc::Status& status) override { done_.set_value(status); }

 private:
  // Starts the next write, if one may be started now; half-closes behind the last.
  void advance() {
    const std::lock_guard lock(mutex_);
    if (writing_ || stopped_) return;
    if (sent_count_ > 0 && call_.awaits_first_response && !answered_) return;
    if (sent_count_ < call_.requests.size()) {
      const grpc::Slice slice(call_.requests[sent_count_++]);
      outgoing_ = grpc::ByteBuffer(&slice, 1);
      writing_ = true;
      StartWrite(&outgoing_);
    } else {
      stopped_ = true;
      if (call_.half_close) StartWritesDone();
      RemoveHold();
    }
  }

  void stop_writing() {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    RemoveHold();
  }

  const RawCall& call_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  RawOutcome outcome_;
  std::promise<grpc::Status> done_;

  std::mutex mutex_;
  std::size_t sent_count_ = 0;
  bool writing_ = false;
  bool answered_ = false;
  bool stopped_ = false;
};

}  // namespace

RawOutcome run(const std::shared_ptr<grpc::Channel>& channel, const RawCall& call) {
  grpc::GenericStub stub(channel);
  return Reactor(call).run(stub);
}

}  // namespace monopath::conformance
