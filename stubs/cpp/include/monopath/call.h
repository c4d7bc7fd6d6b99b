// One call of gRPC: a thread writes, a thread reads, and the caller's thread has a queue to each.
#ifndef MONOPATH_CALL_H_
#define MONOPATH_CALL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "monopath/leases.h"
#include "monopath/v1/service.grpc.pb.h"

namespace monopath::detail {

// Responses are large: whoever writes without reading gets stuck, since the server stops reading when its responses are
// not read. What waits to be written is bounded by whoever calls `write`, with the limits of `ready`; what was read and
// not taken is bounded here.
template <typename Path>
class Call {
 public:
  using Deadline = std::optional<std::chrono::system_clock::time_point>;

  // Sends the releases of `leases` while it lives.
  Call(v1::PreprocessingService::Stub& stub, const Deadline& deadline, std::shared_ptr<Leases> leases)
      : leases_(std::move(leases)) {
    if (deadline) context_.set_deadline(*deadline);
    stream_ = Path::open(stub, context_);
    reader_ = std::thread([this] { read_all(); });
    writer_ = std::thread([this] { write_all(); });
    leases_->begin([this](std::int32_t id) {
      typename Path::Request request;
      request.mutable_release()->set_id(id);
      write(std::move(request));
    });
  }

  // Ends the call now, where it has not ended.
  ~Call() {
    leases_->end();
    if (!reader_.joinable()) return;
    cancel();
    finish();
  }

  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Has a request sent, behind those before. Does not wait. Without effect after `half_close`.
  void write(typename Path::Request request) {
    const std::lock_guard lock(mutex_);
    if (!closing_) unsent_.push_back(std::move(request));
    changed_.notify_all();
  }

  // Has nothing more sent: after what waits to be sent, or, if that is dropped, at once.
  void half_close(bool drop_unsent) {
    const std::lock_guard lock(mutex_);
    if (drop_unsent) unsent_.clear();
    closing_ = true;
    changed_.notify_all();
  }

  // Waits for the next response. Nothing: there are no more, and `finish` has the status.
  std::optional<typename Path::Response> read() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !untaken_.empty(); });
    return take();
  }

  // Whether `read` would return a response, or that there are no more, without waiting.
  bool can_read() {
    const std::lock_guard lock(mutex_);
    return ended_ || !untaken_.empty();
  }

  // Sends nothing more, reads and drops what still comes, and returns the status that the call ended with. Once.
  grpc::Status finish() {
    half_close(true);
    {
      const std::lock_guard lock(mutex_);
      dropping_ = true;
      changed_.notify_all();
    }
    reader_.join();
    writer_.join();
    return stream_->Finish();
  }

  // Ends the call now: a `read` that waits returns nothing. For any thread.
  void cancel() { context_.TryCancel(); }

 private:
  static constexpr std::size_t kMaxUntakenBytes = std::size_t{16} << 20;

  std::optional<typename Path::Response> take() {
    if (untaken_.empty()) return std::nullopt;
    std::optional<typename Path::Response> response(std::move(untaken_.front()));
    untaken_.pop_front();
    untaken_bytes_ -= response->ByteSizeLong();
    changed_.notify_all();
    return response;
  }

  void read_all() {
    for (;;) {
      typename Path::Response response;
      const bool received = stream_->Read(&response);
      std::unique_lock lock(mutex_);
      if (!received) {
        ended_ = true;
        changed_.notify_all();
        return;
      }
      untaken_bytes_ += response.ByteSizeLong();
      untaken_.push_back(std::move(response));
      changed_.notify_all();
      changed_.wait(lock, [this] { return dropping_ || untaken_bytes_ < kMaxUntakenBytes; });
      if (dropping_) {
        untaken_.clear();
        untaken_bytes_ = 0;
      }
    }
  }

  void write_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closing_ || !unsent_.empty(); });
      if (unsent_.empty()) break;
      const typename Path::Request request = std::move(unsent_.front());
      unsent_.pop_front();
      lock.unlock();
      const bool written = stream_->Write(request);
      lock.lock();
      if (!written) {
        // The call has ended; `read` tells it.
        closing_ = true;
        unsent_.clear();
        return;
      }
    }
    lock.unlock();
    stream_->WritesDone();
  }

  std::shared_ptr<Leases> leases_;
  grpc::ClientContext context_;
  decltype(Path::open(std::declval<v1::PreprocessingService::Stub&>(), std::declval<grpc::ClientContext&>())) stream_;
  std::mutex mutex_;
  // Of everything below that the threads share.
  std::condition_variable changed_;
  std::deque<typename Path::Request> unsent_;
  bool closing_ = false;
  std::deque<typename Path::Response> untaken_;
  std::size_t untaken_bytes_ = 0;
  bool dropping_ = false;
  bool ended_ = false;
  std::thread reader_;
  std::thread writer_;
};

}  // namespace monopath::detail

#endif  // MONOPATH_CALL_H_
