// A stream of monopath: typed by its path, read while it is written, bounded by what the server takes. Header-only.
//
//   monopath::Stream<monopath::DeferredCpu> stream(channel, monopath::preset_config<monopath::DeferredCpu>("kimi-k3"));
//   stream.map(next_item, take_result);
#ifndef MONOPATH_STREAM_H_
#define MONOPATH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "monopath/call.h"
#include "monopath/error.h"
#include "monopath/features.h"
#include "monopath/items.h"
#include "monopath/paths.h"
#include "monopath/plans.h"
#include "monopath/session.h"
#include "monopath/transport.h"
#include "monopath/v1/service.grpc.pb.h"

namespace monopath {

// What a stream may be told besides its config.
struct StreamOptions {
  // Time for all of it, from its opening to its end. Absent: no end to it.
  std::optional<std::chrono::nanoseconds> timeout;
  // Called with each item's plan, which comes before a pixel of it is decoded; in the caller's thread, out of whichever
  // method takes what the server said.
  std::function<void(std::int32_t id, const v1::ImagePlan& plan)> on_plan;
  // How features and images travel: `SharedMemory` of shared_memory.h, one for all streams. Absent: in messages.
  std::shared_ptr<Transport> transport;
};

// One stream of `Path`: Local, DeferredCuda or DeferredCpu. For one thread at a time, save `cancel`.
//
// Where the server asks to move (`goaway`), the items it has are awaited and the rest goes to a new stream under the
// same config. A stream that is lost is not mended: StreamError, and what has no result may be sent again on another
// one. After an exception the stream is of no more use, save for the results that are there already.
//
// Results leave by `next`. Whoever sends much without taking them has them all in memory; with `map` they are few.
template <typename Path>
class Stream {
 public:
  using Item = typename Path::Item;

  // Opens the stream and waits for `ready`. Throws StreamError where the server refuses, or the transport can not be
  // used, and std::invalid_argument for a config that has a transport other than inline: `options.transport` says it.
  Stream(const std::shared_ptr<grpc::ChannelInterface>& channel, typename Path::Config config,
         StreamOptions options = {})
      : stub_(channel), config_(std::move(config)), options_(std::move(options)) {
    v1::OutputConfig& output = *config_.mutable_output();
    if (output.transport_case() == v1::OutputConfig::TRANSPORT_NOT_SET) {
      if (options_.transport != nullptr) {
        options_.transport->ask(output);
      } else {
        output.mutable_inline_();
      }
    } else if (options_.transport != nullptr || !output.has_inline_()) {
      throw std::invalid_argument("Expected a config without a transport, which the stream's options say, got another");
    }
    // What is there at the same time comes in one message; a server that can not do that does not.
    output.set_group_responses(true);
    if (options_.timeout) {
      deadline_ = std::chrono::system_clock::now() +
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(*options_.timeout);
    }
    open();
  }

  // Ends the stream now, with whatever is in flight, where it was not finished; waits for its thread.
  ~Stream() = default;

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // What the server said at the opening: the config that holds, its digest, the limits.
  const v1::Ready& ready() const noexcept { return ready_; }

  // Sends an item and returns the id that its result will have; one that is set in the item is replaced. Waits,
  // reading, until the server has room. An item that is larger than a request may be is not sent: its result is its
  // error.
  template <typename T>
  std::int32_t send(T item) {
    static_assert(std::is_same_v<T, Item>, "Expected an item of the stream's own path, got another type");
    if (finished_) throw std::logic_error("Expected a stream that was not finished, got one that was");
    const std::size_t payload_bytes = Path::payload(item).size();
    await_room(payload_bytes);
    const std::int32_t id = ++last_id_;
    std::unique_ptr<detail::Upload> upload = session_->upload(Path::payload(item));
    const v1::SharedMemoryHandle* const uploaded = upload == nullptr ? nullptr : &upload->handle();
    const std::uint32_t max_request_bytes = ready_.limits().max_request_bytes();
    const std::size_t request_bytes = Path::largest_request_bytes(item, max_request_bytes, uploaded);
    if (max_request_bytes != 0 && request_bytes > max_request_bytes) {
      session_->refuse(id, Path::label(item), too_large(id, Path::label(item), request_bytes));
      return id;
    }
    session_->begin(id, Path::label(item), payload_bytes, std::move(upload));
    Path::write_item(std::move(item), id, max_request_bytes, uploaded,
                     [this](typename Path::Request request) { call_->write(std::move(request)); });
    return id;
  }

  // Returns the next result; waits for it. Nothing: every item that was sent has had its result.
  std::optional<Result<Path>> next() {
    while (results_.empty()) {
      rethrow();
      if (session_->idle() && !session_->failure()) return std::nullopt;
      receive();
    }
    std::optional<Result<Path>> result(std::move(results_.front()));
    results_.pop_front();
    return result;
  }

  // Asks the server to drop an item. It has its result in any case: the error CANCELLED, or what it came to before.
  void cancel_item(std::int32_t id) {
    if (!session_->is_unfinished(id)) return;
    typename Path::Request request;
    request.mutable_cancellation()->set_id(id);
    call_->write(std::move(request));
  }

  // Half-closes, waits for every item's end and returns what the stream came to. Results are left for `next`.
  v1::Summary finish() {
    rethrow();
    finished_ = true;
    call_->half_close(false);
    while (!ended_) receive();
    return total_;
  }

  // Sends what `next_item` returns, a std::optional<Item>, until that is empty; calls `take_result` with each
  // Result<Path>; finishes the stream and returns what it came to. Both run in the caller's thread.
  template <typename Source, typename Sink>
  v1::Summary map(Source&& next_item, Sink&& take_result) {
    static_assert(std::is_same_v<std::invoke_result_t<Source&>, std::optional<Item>>,
                  "Expected a source of the stream's own path, that returns std::optional of its items");
    static_assert(std::is_invocable_v<Sink&, Result<Path>>, "Expected a sink that takes results of the stream's path");
    for (std::optional<Item> item = next_item(); item; item = next_item()) {
      while (!session_->has_room(Path::payload(*item).size())) {
        if (std::optional<Result<Path>> result = next()) take_result(std::move(*result));
      }
      send(std::move(*item));
      receive_without_waiting();
      while (!results_.empty()) take_result(std::move(*next()));
    }
    while (std::optional<Result<Path>> result = next()) take_result(std::move(*result));
    return finish();
  }

  // Ends the stream now, from any thread: whoever waits in another method gets a StreamError with the code CANCELLED.
  void cancel() {
    const std::lock_guard lock(call_mutex_);
    cancelled_ = true;
    if (call_) call_->cancel();
  }

 private:
  static constexpr int kMaxFruitlessMoves = 3;

  void await_room(std::size_t payload_bytes) {
    rethrow();
    for (;;) {
      if (session_->asked_to_move()) {
        move();
      } else if (!session_->failure() && session_->has_room(payload_bytes)) {
        return;
      } else {
        receive();
      }
    }
  }

  // Opens a stream of the server, and another one where that asks to move before it is ready.
  void open() {
    for (int fruitless_moves = 0; fruitless_moves < kMaxFruitlessMoves; ++fruitless_moves) {
      begin_call();
      while (!session_->ready() && !ended_) receive();
      if (session_->ready() && !session_->asked_to_move()) return accept(*session_->ready());
      while (!ended_) receive();
    }
    throw StreamMoved("Expected a stream that takes items, got " + std::to_string(kMaxFruitlessMoves) +
                      " that asked to move");
  }

  // The first request is the config; the caller waits for `ready` before it sends more.
  void begin_call() {
    auto leases = std::make_shared<detail::Leases>();
    session_.emplace(config_.output().data_type(), config_.output().order(), results_, options_.on_plan,
                     options_.transport == nullptr ? nullptr : options_.transport->carry_stream(), leases);
    ended_ = false;
    auto call = std::make_unique<detail::Call<Path>>(stub_, deadline_, std::move(leases));
    typename Path::Request request;
    *request.mutable_config() = config_;
    call->write(std::move(request));
    const std::lock_guard lock(call_mutex_);
    if (cancelled_) call->cancel();
    call_ = std::move(call);
  }

  void accept(const v1::Ready& ready) {
    if (!ready_.config_sha256().empty() && ready.config_sha256() != ready_.config_sha256()) {
      throw StreamMoved("Expected the same config on the new stream, got another");
    }
    ready_ = ready;
  }

  // Brings the stream to its end, since its server asked for that, and opens another one.
  void move() {
    while (!ended_) receive();
    try {
      open();
    } catch (...) {
      fail();
      throw;
    }
  }

  // Takes one response, or the end; waits for it.
  void receive() {
    try {
      std::optional<typename Path::Response> response = call_->read();
      if (!response) return receive_end();
      session_->receive(std::move(*response));
      if (session_->failure()) {
        call_->half_close(true);
      } else if (session_->asked_to_move()) {
        call_->half_close(false);
      }
    } catch (...) {
      fail();
      throw;
    }
  }

  // Takes what came already.
  void receive_without_waiting() {
    while (!ended_ && call_->can_read()) receive();
  }

  // Keeps the exception that is being handled: the stream is of no more use.
  void fail() {
    if (!error_) error_ = std::current_exception();
    call_->cancel();
  }

  void receive_end() {
    ended_ = true;
    const grpc::Status status = call_->finish();
    session_->end();
    if (session_->failure()) throw error_of(status, *session_->failure());
    if (!status.ok()) throw error_of(status);
    if (!finished_ && !session_->asked_to_move()) {
      throw ProtocolError("Expected the client's half-close before the stream's end, got the end");
    }
    session_->check_end();
    if (session_->summary()) add(*session_->summary());
  }

  void add(const v1::Summary& summary) {
    total_.set_accepted_count(total_.accepted_count() + summary.accepted_count());
    total_.set_completed_count(total_.completed_count() + summary.completed_count());
    total_.set_failed_count(total_.failed_count() + summary.failed_count());
    total_.set_cancelled_count(total_.cancelled_count() + summary.cancelled_count());
    total_.set_received_bytes(total_.received_bytes() + summary.received_bytes());
    total_.set_sent_bytes(total_.sent_bytes() + summary.sent_bytes());
    total_.set_fallback_count(total_.fallback_count() + summary.fallback_count());
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  v1::ItemError too_large(std::int32_t id, const std::string& label, std::size_t request_bytes) const {
    v1::ItemError error;
    error.set_id(id);
    error.set_label(label);
    error.set_reason(v1::ITEM_ERROR_REASON_IMAGE_BYTES_EXCEEDED);
    error.set_message("Expected a request of at most " + std::to_string(ready_.limits().max_request_bytes()) +
                      " bytes, got " + std::to_string(request_bytes) + "; not sent");
    return error;
  }

  v1::PreprocessingService::Stub stub_;
  typename Path::Config config_;
  StreamOptions options_;
  typename detail::Call<Path>::Deadline deadline_;
  std::deque<Result<Path>> results_;
  std::optional<detail::Session<Path>> session_;
  v1::Ready ready_;
  v1::Summary total_;
  std::int32_t last_id_ = 0;
  bool finished_ = false;
  bool ended_ = true;
  std::exception_ptr error_;
  // The call is replaced when the stream moves, while another thread may cancel it.
  std::mutex call_mutex_;
  bool cancelled_ = false;
  std::unique_ptr<detail::Call<Path>> call_;
};

}  // namespace monopath

#endif  // MONOPATH_STREAM_H_
