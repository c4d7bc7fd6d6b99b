// Images and features on their way to the server in shared memory.
#ifndef MONOPATH_UPLOADS_H_
#define MONOPATH_UPLOADS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "monopath/segments.h"
#include "monopath/transport.h"
#include "monopath/v1/location.pb.h"

namespace monopath::detail {

// Puts bytes into segments, and keeps some of those that were given back: a fresh one costs ten times a warm one. For
// any thread; has to outlive its uploads.
class UploadPool {
 public:
  // `idle_limit_bytes` bounds what is kept for the next items.
  explicit UploadPool(SegmentOwner& owner, std::size_t idle_limit_bytes = std::size_t{64} << 20)
      : owner_(owner), idle_limit_bytes_(idle_limit_bytes) {}

  // Returns nullptr where there is no room: the same bytes can go another way.
  std::unique_ptr<Upload> put(const std::string& bytes) {
    OwnSegment segment;
    try {
      segment = take(segment_bytes(bytes.size()));
    } catch (const std::system_error&) {
      return nullptr;
    }
    std::memcpy(segment.memory->data(), bytes.data(), bytes.size());
    v1::SharedMemoryHandle handle;
    handle.set_name(segment.name);
    handle.set_length_bytes(bytes.size());
    {
      // Larger than in every handle before, and so than in those of the stream.
      const std::lock_guard lock(mutex_);
      handle.set_generation(++last_generation_);
    }
    return std::make_unique<SegmentUpload>(*this, std::move(segment), std::move(handle));
  }

 private:
  class SegmentUpload final : public Upload {
   public:
    SegmentUpload(UploadPool& pool, OwnSegment segment, v1::SharedMemoryHandle handle)
        : pool_(pool), segment_(std::move(segment)), handle_(std::move(handle)) {}

    ~SegmentUpload() override {
      if (segment_.memory) pool_.owner_.unlink(segment_.name);
    }

    const v1::SharedMemoryHandle& handle() const noexcept override { return handle_; }

    void give_back() override {
      if (segment_.memory) pool_.take_back(std::exchange(segment_, {}));
    }

   private:
    UploadPool& pool_;
    OwnSegment segment_;
    v1::SharedMemoryHandle handle_;
  };

  // Rounds up to a quarter of a power of two: similar sizes share segments, and at most a quarter is wasted.
  static std::size_t segment_bytes(std::size_t size_bytes) {
    std::size_t power_bytes = std::size_t{64} << 10;
    if (size_bytes <= power_bytes) return power_bytes;
    while (power_bytes < size_bytes) power_bytes *= 2;
    const std::size_t step_bytes = power_bytes / 8;
    return (size_bytes + step_bytes - 1) / step_bytes * step_bytes;
  }

  OwnSegment take(std::size_t size_bytes) {
    {
      const std::lock_guard lock(mutex_);
      for (auto segment = idle_.begin(); segment != idle_.end(); ++segment) {
        if (segment->memory->size_bytes() != size_bytes) continue;
        OwnSegment taken = std::move(*segment);
        idle_.erase(segment);
        idle_bytes_ -= size_bytes;
        return taken;
      }
    }
    try {
      return owner_.create(size_bytes);
    } catch (const std::system_error&) {
      // The idle ones may be what fills the directory.
      if (!drop_idle(0)) throw;
    }
    return owner_.create(size_bytes);
  }

  void take_back(OwnSegment segment) {
    {
      const std::lock_guard lock(mutex_);
      idle_bytes_ += segment.memory->size_bytes();
      idle_.push_front(std::move(segment));
    }
    drop_idle(idle_limit_bytes_);
  }

  // Takes those away that were not used for longest. Returns whether there were any.
  bool drop_idle(std::size_t limit_bytes) {
    const std::lock_guard lock(mutex_);
    bool dropped = false;
    for (; idle_bytes_ > limit_bytes; dropped = true) {
      owner_.unlink(idle_.back().name);
      idle_bytes_ -= idle_.back().memory->size_bytes();
      idle_.pop_back();
    }
    return dropped;
  }

  SegmentOwner& owner_;
  const std::size_t idle_limit_bytes_;
  std::mutex mutex_;
  // The one used last comes first.
  std::list<OwnSegment> idle_;
  std::size_t idle_bytes_ = 0;
  std::uint64_t last_generation_ = 0;
};

}  // namespace monopath::detail

#endif  // MONOPATH_UPLOADS_H_
