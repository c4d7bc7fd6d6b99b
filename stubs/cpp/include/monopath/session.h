// One stream of the server, without I/O: what may be sent, and whether what is received keeps to the grammar.
#ifndef MONOPATH_SESSION_H_
#define MONOPATH_SESSION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "monopath/error.h"
#include "monopath/features.h"
#include "monopath/leases.h"
#include "monopath/transport.h"
#include "monopath/v1/event.pb.h"

namespace monopath {

// The one result of an item: its features, or its error. It is of its path's type, so that results of two paths do not
// get into one container by accident.
template <typename Path>
struct Result {
  // As `send` returned it.
  std::int32_t id = 0;
  // As sent.
  std::string label;
  // Geometry (see `patch_grid`), token count and tensor. An item with an error may have none.
  std::optional<v1::ImagePlan> plan;
  // Empty where there is an error.
  Features features;
  // Provenance, timings and what the cache did. Present where there is no error.
  std::optional<typename Path::Completion> completion;
  std::optional<v1::ItemError> error;

  bool ok() const noexcept { return !error.has_value(); }
};

namespace detail {

// From `config` to `summary`. Methods throw ProtocolError where the server breaks a rule.
template <typename Path>
class Session {
 public:
  using PlanSink = std::function<void(std::int32_t id, const v1::ImagePlan& plan)>;

  // Results are put into `results`, which has to outlive this. Without a carrier all bytes travel in messages; with
  // one, what it maps is leased, and given back by `leases`.
  Session(v1::DataType data_type, v1::ResultOrder order, std::deque<Result<Path>>& results, PlanSink on_plan,
          std::unique_ptr<Carrier> carrier = nullptr, std::shared_ptr<Leases> leases = nullptr)
      : data_type_(data_type),
        order_(order),
        results_(&results),
        on_plan_(std::move(on_plan)),
        carrier_(std::move(carrier)),
        leases_(std::move(leases)) {}

  const std::optional<v1::Ready>& ready() const noexcept { return ready_; }
  const std::optional<v1::StreamFailure>& failure() const noexcept { return failure_; }
  const std::optional<v1::Summary>& summary() const noexcept { return summary_; }
  bool asked_to_move() const noexcept { return goaway_; }
  std::uint32_t accepted_count() const noexcept { return accepted_count_; }
  // Every item has ended.
  bool idle() const noexcept { return unfinished_.empty(); }
  bool is_unfinished(std::int32_t id) const { return unfinished_.count(id) != 0 && !unfinished_.at(id).refusal; }

  // Whether an item fits into what the server takes at a time. One always does.
  bool has_room(std::size_t payload_bytes) const {
    const v1::StreamLimits& limits = ready_->limits();
    return unfinished_.empty() || (unfinished_.size() < std::max(1u, limits.max_unfinished_items()) &&
                                   unfinished_bytes_ + payload_bytes <= limits.max_unfinished_bytes());
  }

  // Puts an item's bytes where the server reads them. nullptr: they are to travel in messages.
  std::unique_ptr<Upload> upload(const std::string& payload) {
    return carrier_ == nullptr ? nullptr : carrier_->upload(payload);
  }

  // Takes an item that is sent. What was uploaded of it stays as it is until the item has ended.
  void begin(std::int32_t id, std::string label, std::size_t payload_bytes, std::unique_ptr<Upload> upload = nullptr) {
    Unfinished& item = unfinished_[id];
    item.label = std::move(label);
    item.payload_bytes = payload_bytes;
    item.upload = std::move(upload);
    unfinished_bytes_ += payload_bytes;
    ++accepted_count_;
  }

  // Takes an item that is not sent, since its request would end the whole stream. Its error waits for its turn.
  void refuse(std::int32_t id, std::string label, v1::ItemError error) {
    Unfinished& item = unfinished_[id];
    item.label = std::move(label);
    item.refusal = std::move(error);
    emit_refusals();
  }

  // Takes one message, or those of a group in their order.
  void receive(typename Path::Response response) {
    if (!response.has_group()) return receive_one(std::move(response));
    for (typename Path::Response& one : *response.mutable_group()->mutable_responses()) receive_one(std::move(one));
  }

  // The stream is over, in whatever way: nothing more is mapped or uploaded. What was mapped can be read still.
  void end() { carrier_.reset(); }

  // Takes the end with the status OK.
  void check_end() const {
    if (!summary_ && !(goaway_ && !ready_)) throw ProtocolError("Expected a summary before the stream's end, got none");
  }

 private:
  struct Unfinished {
    std::string label;
    std::size_t payload_bytes = 0;
    std::unique_ptr<Upload> upload;
    std::optional<v1::ImagePlan> plan;
    std::optional<FeatureAssembly> assembly;
    std::optional<v1::ItemError> refusal;
  };

  void receive_one(typename Path::Response response) {
    using Response = typename Path::Response;
    // A newer server's: never terminal.
    if (response.payload_case() == Response::PAYLOAD_NOT_SET) return;
    if (summary_) throw ProtocolError("Expected nothing after the summary, got more");
    if (!ready_ && response.has_summary() && !goaway_) throw ProtocolError("Expected ready first, got a summary");
    switch (response.payload_case()) {
      case Response::kReady:
        return receive_ready(std::move(*response.mutable_ready()));
      case Response::kGoaway:
        goaway_ = true;
        return;
      case Response::kFailure:
        failure_ = std::move(*response.mutable_failure());
        return;
      case Response::kSummary:
        return receive_summary(response.summary());
      case Response::kPlan:
        return receive_plan(std::move(*response.mutable_plan()));
      case Response::kFeatures:
        return receive_features(response.features());
      case Response::kCompletion:
        return receive_completion(std::move(*response.mutable_completion()));
      case Response::kError:
        return receive_error(std::move(*response.mutable_error()));
      case Response::kGroup:
        throw ProtocolError("Expected a group of responses, got one with a group in it");
      case Response::PAYLOAD_NOT_SET:
        return;
    }
  }

  void receive_ready(v1::Ready ready) {
    if (ready_) throw ProtocolError("Expected ready once, got another");
    check_path(ready.path(), "a stream");
    if (carrier_ != nullptr) carrier_->check(ready);
    ready_ = std::move(ready);
  }

  void receive_plan(v1::ItemPlan planned) {
    Unfinished& item = unfinished(planned.id(), "plan");
    if (item.plan) throw ProtocolError("Expected one plan of item " + std::to_string(planned.id()) + ", got another");
    check_path(planned.path(), "a plan");
    item.assembly.emplace(planned.plan().features(), data_type_, ready_->limits().max_feature_bytes());
    item.plan = std::move(*planned.mutable_plan());
    if (on_plan_) on_plan_(planned.id(), *item.plan);
  }

  template <typename FeaturesMessage>
  void receive_features(const FeaturesMessage& features) {
    Unfinished& item = unfinished(features.id(), "features");
    if (!item.assembly) {
      throw ProtocolError("Expected a plan of item " + std::to_string(features.id()) +
                          " before its features, got none");
    }
    // Chunks come on every stream: where the server has no shared memory left, too.
    if (features.has_chunk()) return item.assembly->add(features.chunk());
    if (carrier_ == nullptr || !features.has_shared_memory()) {
      throw ProtocolError("Expected features of item " + std::to_string(features.id()) +
                          (carrier_ == nullptr ? " inline, got none" : " inline or in shared memory, got none"));
    }
    item.assembly->place(features.shared_memory(), [&] { return lease(features.id(), features.shared_memory()); });
  }

  // Maps memory that is the server's, and gives it back when nobody has it any more.
  std::shared_ptr<const std::byte> lease(std::int32_t id, const v1::SharedMemoryHandle& handle) {
    struct Leased {
      Lease lease;
      // Goes first: the server is told when nothing of it is read any more.
      std::shared_ptr<const std::byte> bytes;

      Leased(std::shared_ptr<Leases> leases, std::int32_t item_id) : lease(std::move(leases), item_id) {}
    };
    const auto leased = std::make_shared<Leased>(leases_, id);
    leased->bytes = carrier_->map(handle);
    return {leased, leased->bytes.get()};
  }

  void receive_completion(typename Path::Completion completion) {
    const std::int32_t id = completion.id();
    Unfinished& item = unfinished(id, "completion");
    if (!item.assembly) {
      throw ProtocolError("Expected a plan of item " + std::to_string(id) + " before its completion, got none");
    }
    check_path(completion.provenance().path(), "features");
    if (completion.provenance().config_sha256() != ready_->config_sha256()) {
      throw ProtocolError("Expected item " + std::to_string(id) + " made with the stream's config, got another");
    }
    Result<Path> result;
    result.features = item.assembly->finish();
    result.completion = std::move(completion);
    end(id, std::move(result));
  }

  void receive_error(v1::ItemError error) {
    const std::int32_t id = error.id();
    unfinished(id, "error");
    Result<Path> result;
    result.error = std::move(error);
    end(id, std::move(result));
  }

  void receive_summary(const v1::Summary& summary) {
    if (!unfinished_.empty()) {
      throw ProtocolError("Expected " + std::to_string(unfinished_.size()) +
                          " more items to end before the summary, got none");
    }
    const std::uint64_t ended_count =
        std::uint64_t{summary.completed_count()} + summary.failed_count() + summary.cancelled_count();
    if (summary.accepted_count() != accepted_count_ || ended_count != accepted_count_) {
      throw ProtocolError("Expected a summary of " + std::to_string(accepted_count_) + " items, got " +
                          std::to_string(summary.accepted_count()) + " accepted and " + std::to_string(ended_count) +
                          " ended");
    }
    summary_ = summary;
  }

  Unfinished& unfinished(std::int32_t id, const std::string& event) {
    if (!ready_) throw ProtocolError("Expected ready first, got the event " + event + " of an item");
    const auto found = unfinished_.find(id);
    if (found == unfinished_.end() || found->second.refusal) {
      throw ProtocolError("Expected " + event + " of an item without an end, got one of item " + std::to_string(id));
    }
    return found->second;
  }

  void check_path(v1::PreprocessingPath path, const std::string& what) const {
    if (path != Path::path) {
      throw ProtocolError("Expected " + what + " of " + v1::PreprocessingPath_Name(Path::path) + ", got " +
                          v1::PreprocessingPath_Name(path));
    }
  }

  void end(std::int32_t id, Result<Path> result) {
    if (order_ == v1::RESULT_ORDER_AS_SENT && id != unfinished_.begin()->first) {
      throw ProtocolError("Expected item " + std::to_string(unfinished_.begin()->first) +
                          " to end first, as sent, got the end of item " + std::to_string(id));
    }
    emit(id, std::move(result));
    emit_refusals();
  }

  void emit(const std::int32_t id, Result<Path> result) {
    Unfinished& item = unfinished_.at(id);
    result.id = id;
    result.label = std::move(item.label);
    result.plan = std::move(item.plan);
    unfinished_bytes_ -= item.payload_bytes;
    if (item.upload != nullptr) item.upload->give_back();
    unfinished_.erase(id);
    results_->push_back(std::move(result));
  }

  void emit_refusals() {
    for (auto next = unfinished_.begin(); next != unfinished_.end();) {
      const auto here = next++;
      if (here->second.refusal) {
        Result<Path> result;
        result.error = std::move(here->second.refusal);
        emit(here->first, std::move(result));
      } else if (order_ == v1::RESULT_ORDER_AS_SENT) {
        return;
      }
    }
  }

  v1::DataType data_type_;
  v1::ResultOrder order_;
  std::deque<Result<Path>>* results_;
  PlanSink on_plan_;
  std::unique_ptr<Carrier> carrier_;
  std::shared_ptr<Leases> leases_;
  std::optional<v1::Ready> ready_;
  std::optional<v1::StreamFailure> failure_;
  std::optional<v1::Summary> summary_;
  bool goaway_ = false;
  // By id, and so in the order sent.
  std::map<std::int32_t, Unfinished> unfinished_;
  std::size_t unfinished_bytes_ = 0;
  std::uint32_t accepted_count_ = 0;
};

}  // namespace detail
}  // namespace monopath

#endif  // MONOPATH_SESSION_H_
