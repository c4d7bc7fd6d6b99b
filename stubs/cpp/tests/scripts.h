// The steps that most scripts of a fake server are made of, and what its client sends.
#ifndef MONOPATH_TESTS_SCRIPTS_H_
#define MONOPATH_TESTS_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "fake_server.h"
#include "messages.h"

namespace monopath::tests {

using Cpu = DeferredCpu;
using Side = ServerSide<Cpu>;

inline Cpu::Config config(v1::ResultOrder order = v1::RESULT_ORDER_AS_COMPLETED) {
  return preset_config<Cpu>("kimi-k3", v1::DATA_TYPE_UINT8, order);
}

inline Cpu::Item item(std::size_t size_bytes = 3) { return image_bytes<Cpu>(std::string(size_bytes, 'i'), "a label"); }

inline void open(Side& side, const v1::StreamLimits& limits = default_limits()) {
  side.expect_config();
  side.say(ready(limits));
}

inline void complete(Side& side, std::int32_t id, const std::string& features = "ab") {
  side.say(plan(id, static_cast<std::uint32_t>(features.size())));
  constexpr std::size_t kChunkBytes = 1 << 20;
  for (std::size_t offset = 0; offset < features.size(); offset += kChunkBytes) {
    side.say(chunk(id, static_cast<std::uint32_t>(offset), features.substr(offset, kChunkBytes)));
  }
  side.say(completion(id));
}

inline grpc::Status end(Side& side, std::uint32_t completed_count, std::uint32_t failed_count = 0) {
  side.expect_half_close();
  side.say(summary(completed_count, failed_count));
  return grpc::Status::OK;
}

// A source of `count` items for `map`.
inline auto source_of(int count) {
  return [count]() mutable -> std::optional<Cpu::Item> {
    if (count-- == 0) return std::nullopt;
    return item();
  };
}

}  // namespace monopath::tests

#endif  // MONOPATH_TESTS_SCRIPTS_H_
