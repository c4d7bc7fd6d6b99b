// Segments of a server that this process has mapped for reading.
#ifndef MONOPATH_MAPPINGS_H_
#define MONOPATH_MAPPINGS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "monopath/segments.h"
#include "monopath/v1/location.pb.h"

namespace monopath::detail {

// The mappings of one stream's server. Mapping is what shared memory costs, and a server uses its segments again: what
// several items lease is mapped once, and what nobody reads is kept for the next item. For any thread.
class SegmentMappings : public std::enable_shared_from_this<SegmentMappings> {
 public:
  // `idle_limit_bytes` bounds what stays mapped without anybody who reads it.
  explicit SegmentMappings(std::filesystem::path directory, std::size_t idle_limit_bytes = std::size_t{128} << 20)
      : directory_(std::move(directory)), idle_limit_bytes_(idle_limit_bytes) {}

  // The bytes that a handle leads to, mapped as long as the pointer or a copy of it lives, whatever becomes of this
  // object, the stream or the server. Throws SegmentError where the segment is missing, in another use, or ends before
  // the bytes do, and std::system_error where this process can not map any more.
  std::shared_ptr<const std::byte> map(const v1::SharedMemoryHandle& handle) {
    std::shared_ptr<const Segment> segment = take_held(handle.name());
    if (segment == nullptr) segment = hold(take_idle(handle.name()), handle.name());
    check(*segment->mapping, handle);
    return {segment, segment->mapping->data() + handle.offset_bytes()};
  }

  // Keeps nothing from now on. What somebody reads stays mapped.
  void close() {
    const std::lock_guard lock(mutex_);
    idle_limit_bytes_ = 0;
    drop_idle();
  }

  std::size_t idle_bytes() {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
  }

 private:
  struct Segment {
    std::string name;
    std::unique_ptr<const Mapping> mapping;
  };

  std::shared_ptr<const Segment> take_held(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = held_.find(name);
    return found == held_.end() ? nullptr : found->second.lock();
  }

  // Has a segment taken back when nobody reads it any more; opens it where it was not mapped.
  std::shared_ptr<const Segment> hold(std::unique_ptr<Segment> segment, const std::string& name) {
    if (segment == nullptr) segment = open(name);
    // The constructor calls the deleter where it throws.
    std::shared_ptr<const Segment> held(segment.release(), [mappings = shared_from_this()](Segment* unread) {
      mappings->take_back(std::unique_ptr<Segment>(unread));
    });
    const std::lock_guard lock(mutex_);
    held_[name] = held;
    return held;
  }

  std::unique_ptr<Segment> open(const std::string& name) const {
    const std::unique_ptr<Descriptor> file = open_segment(directory_, name);
    const off_t size_bytes = file->status().st_size;
    if (size_bytes == 0) throw SegmentError("Expected a segment with bytes, got an empty one");
    return std::make_unique<Segment>(
        Segment{name, std::make_unique<const Mapping>(*file, static_cast<std::size_t>(size_bytes), PROT_READ)});
  }

  static void check(const Mapping& mapping, const v1::SharedMemoryHandle& handle) {
    const std::size_t size_bytes = mapping.size_bytes();
    if (handle.length_bytes() < 1 || handle.offset_bytes() > size_bytes ||
        handle.length_bytes() > size_bytes - handle.offset_bytes()) {
      throw SegmentError("Expected 1 byte or more within a segment of " + std::to_string(size_bytes) + ", got " +
                         std::to_string(handle.length_bytes()) + " at offset " + std::to_string(handle.offset_bytes()));
    }
    // It begins with the 8 letters and the number of its use, little-endian, as this machine is.
    std::string header = "monopath";
    const std::uint64_t generation = handle.generation();
    header.append(reinterpret_cast<const char*>(&generation), sizeof generation);
    if (size_bytes < header.size() || std::memcmp(mapping.data(), header.data(), header.size()) != 0) {
      throw SegmentError("Expected a segment in use " + std::to_string(generation) + ", got one in another");
    }
  }

  std::unique_ptr<Segment> take_idle(const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (auto segment = idle_.begin(); segment != idle_.end(); ++segment) {
      if ((*segment)->name != name) continue;
      std::unique_ptr<Segment> taken = std::move(*segment);
      idle_.erase(segment);
      idle_bytes_ -= taken->mapping->size_bytes();
      return taken;
    }
    return nullptr;
  }

  void take_back(std::unique_ptr<Segment> segment) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      // Another one of its name may be held by now.
      const auto found = held_.find(segment->name);
      if (found != held_.end() && found->second.expired()) held_.erase(found);
      idle_.push_front(std::move(segment));
      idle_bytes_ += idle_.front()->mapping->size_bytes();
      drop_idle();
    } catch (...) {
      // No memory to keep it with: it is unmapped.
    }
  }

  // Unmaps those that were not used for longest.
  void drop_idle() {
    while (idle_bytes_ > idle_limit_bytes_) {
      idle_bytes_ -= idle_.back()->mapping->size_bytes();
      idle_.pop_back();
    }
  }

  std::filesystem::path directory_;
  std::mutex mutex_;
  std::size_t idle_limit_bytes_;
  std::size_t idle_bytes_ = 0;
  // What somebody reads, by name.
  std::map<std::string, std::weak_ptr<const Segment>> held_;
  // The one used last comes first.
  std::list<std::unique_ptr<Segment>> idle_;
};

}  // namespace monopath::detail

#endif  // MONOPATH_MAPPINGS_H_
