// The preprocessing paths as types: each has its own method, messages and items, so that a mix of two does not compile.
#ifndef MONOPATH_PATHS_H_
#define MONOPATH_PATHS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "monopath/v1/service.grpc.pb.h"

namespace monopath {

namespace detail {

// Bytes of a request besides its image or features and its texts: tags, lengths, numbers, a digest.
inline constexpr std::size_t kEnvelopeBytes = 4096;

// What the two paths have in common that send images.
template <typename RequestT, typename ResponseT, typename ConfigT, typename ItemT, typename CompletionT,
          v1::PreprocessingPath kPath>
struct DeferredPath {
  using Request = RequestT;
  using Response = ResponseT;
  using Config = ConfigT;
  using Item = ItemT;
  using Completion = CompletionT;
  static constexpr v1::PreprocessingPath path = kPath;

  static const std::string& label(const Item& item) { return item.label(); }

  // The image: its file, or its raw pixels.
  static const std::string& payload(const Item& item) {
    return item.image().has_encoded() ? item.image().encoded().data() : item.image().pixels().data();
  }

  // Bytes of the largest request that the item needs. `uploaded` is where its payload is, if not in the requests.
  static std::size_t largest_request_bytes(const Item& item, std::uint32_t /*max_request_bytes*/,
                                           const v1::SharedMemoryHandle* uploaded) {
    return item.ByteSizeLong() - (uploaded == nullptr ? 0 : payload(item).size()) + kEnvelopeBytes;
  }

  // Calls `write` with each request of the item.
  template <typename Write>
  static void write_item(Item item, std::int32_t id, std::uint32_t /*max_request_bytes*/,
                         const v1::SharedMemoryHandle* uploaded, Write&& write) {
    item.set_id(id);
    if (uploaded != nullptr) {
      v1::ImageSource& image = *item.mutable_image();
      if (image.has_encoded()) {
        *image.mutable_encoded()->mutable_shared_memory() = *uploaded;
      } else {
        *image.mutable_pixels()->mutable_shared_memory() = *uploaded;
      }
    }
    Request request;
    *request.mutable_item() = std::move(item);
    write(std::move(request));
  }
};

}  // namespace detail

// Images in; features made by the server's CPU out.
struct DeferredCpu
    : detail::DeferredPath<v1::StreamDeferredCpuRequest, v1::StreamDeferredCpuResponse, v1::DeferredCpuConfig,
                           v1::DeferredCpuItem, v1::DeferredCpuCompletion, v1::PREPROCESSING_PATH_DEFERRED_CPU> {
  static auto open(v1::PreprocessingService::Stub& stub, grpc::ClientContext& context) {
    return stub.StreamDeferredCpu(&context);
  }
};

// Images in; features made by the server's GPU out.
struct DeferredCuda
    : detail::DeferredPath<v1::StreamDeferredCudaRequest, v1::StreamDeferredCudaResponse, v1::DeferredCudaConfig,
                           v1::DeferredCudaItem, v1::DeferredCudaCompletion, v1::PREPROCESSING_PATH_DEFERRED_CUDA> {
  static auto open(v1::PreprocessingService::Stub& stub, grpc::ClientContext& context) {
    return stub.StreamDeferredCuda(&context);
  }
};

// An item of the path Local: the announcement of finished features, and their bytes.
struct LocalFeaturesItem {
  // Its id is set by the stream. Grid, tiles and token count are those that the caller computed, and must be the
  // plan's; a family without a patch grid needs no `grid_thw`.
  v1::LocalItem announcement;
  // Little-endian and row-major, `announcement.features().size_bytes()` of them.
  std::string features;
};

// Finished features in; checked and converted features out.
struct Local {
  using Request = v1::StreamLocalRequest;
  using Response = v1::StreamLocalResponse;
  using Config = v1::LocalConfig;
  using Item = LocalFeaturesItem;
  using Completion = v1::LocalCompletion;
  static constexpr v1::PreprocessingPath path = v1::PREPROCESSING_PATH_LOCAL;

  static auto open(v1::PreprocessingService::Stub& stub, grpc::ClientContext& context) {
    return stub.StreamLocal(&context);
  }

  static const std::string& label(const Item& item) { return item.announcement.label(); }

  static const std::string& payload(const Item& item) { return item.features; }

  static std::size_t largest_request_bytes(const Item& item, std::uint32_t max_request_bytes,
                                           const v1::SharedMemoryHandle* uploaded) {
    const std::size_t of_chunk =
        uploaded == nullptr ? std::min(item.features.size(), chunk_bytes(max_request_bytes)) : 0;
    return std::max(item.announcement.ByteSizeLong(), of_chunk) + detail::kEnvelopeBytes;
  }

  template <typename Write>
  static void write_item(Item item, std::int32_t id, std::uint32_t max_request_bytes,
                         const v1::SharedMemoryHandle* uploaded, Write&& write) {
    item.announcement.set_id(id);
    // A plan without a grid is met by an empty one: the contract wants the field.
    item.announcement.mutable_grid_thw();
    Request request;
    *request.mutable_item() = std::move(item.announcement);
    write(std::move(request));
    if (uploaded != nullptr) {
      Request whole;
      whole.mutable_item_features()->set_id(id);
      *whole.mutable_item_features()->mutable_shared_memory() = *uploaded;
      return write(std::move(whole));
    }
    const std::size_t step_bytes = chunk_bytes(max_request_bytes);
    for (std::size_t offset_bytes = 0; offset_bytes < item.features.size(); offset_bytes += step_bytes) {
      Request part;
      part.mutable_item_features()->set_id(id);
      v1::FeatureChunk& chunk = *part.mutable_item_features()->mutable_chunk();
      chunk.set_offset_bytes(static_cast<std::uint32_t>(offset_bytes));
      chunk.set_data(item.features.substr(offset_bytes, step_bytes));
      write(std::move(part));
    }
  }

 private:
  // 1 MiB moves faster than larger messages, and fits every gRPC library's default.
  static std::size_t chunk_bytes(std::uint32_t max_request_bytes) {
    constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
    if (max_request_bytes == 0 || max_request_bytes >= kChunkBytes + detail::kEnvelopeBytes) return kChunkBytes;
    return max_request_bytes > detail::kEnvelopeBytes ? max_request_bytes - detail::kEnvelopeBytes : 1;
  }
};

}  // namespace monopath

#endif  // MONOPATH_PATHS_H_
