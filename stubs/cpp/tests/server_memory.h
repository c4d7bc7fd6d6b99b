// A server's segments, and what it says of them.
#ifndef MONOPATH_TESTS_SERVER_MEMORY_H_
#define MONOPATH_TESTS_SERVER_MEMORY_H_

#include <monopath/segments.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "messages.h"

namespace monopath::tests {

// Where a server's features begin, behind the page of its header.
constexpr std::size_t kHeaderBytes = 4096;

// Begins the use `generation` of a segment, with these features in it, and returns their handle.
inline v1::SharedMemoryHandle fill(detail::OwnSegment& segment, std::uint64_t generation, const std::string& features) {
  std::byte* const memory = segment.memory->data();
  std::memcpy(memory, "monopath", 8);
  std::memcpy(memory + 8, &generation, sizeof generation);
  std::memcpy(memory + kHeaderBytes, features.data(), features.size());
  v1::SharedMemoryHandle handle;
  handle.set_name(segment.name);
  handle.set_offset_bytes(kHeaderBytes);
  handle.set_length_bytes(features.size());
  handle.set_generation(generation);
  return handle;
}

// A server's own shared memory.
class ServerMemory {
 public:
  explicit ServerMemory(const std::filesystem::path& directory)
      : owner_(directory), probe_(owner_.create(kHeaderBytes)) {
    std::memcpy(probe_.memory->data(), nonce_.data(), nonce_.size());
  }

  // A fresh segment with these features in it.
  v1::SharedMemoryHandle put(const std::string& features) {
    detail::OwnSegment segment = owner_.create(kHeaderBytes + features.size());
    return fill(segment, 1, features);
  }

  void unlink(const std::string& name) { owner_.unlink(name); }

  template <typename AnyResponse = Response>
  AnyResponse ready(v1::PreprocessingPath path = v1::PREPROCESSING_PATH_DEFERRED_CPU) const {
    AnyResponse response = tests::ready<AnyResponse>(default_limits(), path);
    v1::SharedMemoryProbe& probe = *response.mutable_ready()->mutable_shared_memory()->mutable_probe();
    probe.set_name(probe_.name);
    probe.set_nonce(nonce_);
    return response;
  }

 private:
  const std::string nonce_ = detail::random_bytes(32);
  detail::SegmentOwner owner_;
  detail::OwnSegment probe_;
};

inline Response handle(std::int32_t id, const v1::SharedMemoryHandle& where) {
  Response response;
  response.mutable_features()->set_id(id);
  *response.mutable_features()->mutable_shared_memory() = where;
  return response;
}

}  // namespace monopath::tests

#endif  // MONOPATH_TESTS_SERVER_MEMORY_H_
