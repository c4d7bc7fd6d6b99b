// Memory of the server's that this client reads, and how it gives it back.
#ifndef MONOPATH_LEASES_H_
#define MONOPATH_LEASES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace monopath::detail {

// The leases of one of the server's streams. Their releases go to that stream and to no later one, where ids mean other
// items. For any thread.
class Leases {
 public:
  // Sends the release of an item; called from whichever thread ends a lease.
  using Send = std::function<void(std::int32_t id)>;

  void begin(Send send) {
    const std::lock_guard lock(mutex_);
    send_ = std::move(send);
  }

  // The stream is over, which gives all memory back by itself. No release is being sent once this returns.
  void end() {
    const std::lock_guard lock(mutex_);
    send_ = nullptr;
  }

  void release(std::int32_t id) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      if (send_) send_(id);
    } catch (...) {
      // No memory for the message: the lease runs out by itself.
    }
  }

 private:
  std::mutex mutex_;
  Send send_;
};

// The memory of one item, given back when this goes.
class Lease {
 public:
  Lease(std::shared_ptr<Leases> leases, std::int32_t id) : leases_(std::move(leases)), id_(id) {}
  ~Lease() { leases_->release(id_); }

  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

 private:
  std::shared_ptr<Leases> leases_;
  std::int32_t id_;
};

}  // namespace monopath::detail

#endif  // MONOPATH_LEASES_H_
