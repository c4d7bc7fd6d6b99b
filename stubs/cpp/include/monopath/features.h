// The features of one item: a buffer of the plan's size, in which its chunks are collected, or memory of the server's.
#ifndef MONOPATH_FEATURES_H_
#define MONOPATH_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "monopath/error.h"
#include "monopath/v1/location.pb.h"
#include "monopath/v1/tensor.pb.h"

namespace monopath {

#if defined(__BYTE_ORDER__)
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Features are little-endian, and are not turned around here");
#endif

// The value of a bfloat16, which is the upper half of a float's bits.
inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// Bytes of one element; 0 for a type that this release does not know.
inline std::size_t element_bytes(v1::DataType data_type) noexcept {
  switch (data_type) {
    case v1::DATA_TYPE_UINT8:
      return 1;
    case v1::DATA_TYPE_BFLOAT16:
    case v1::DATA_TYPE_FLOAT16:
      return 2;
    case v1::DATA_TYPE_FLOAT32:
      return 4;
    default:
      return 0;
  }
}

// A tensor with its bytes, row-major. Move-only. Bytes in shared memory are the server's own, leased until this goes or
// is assigned to; they can be read for as long, whatever becomes of the stream or the server.
class Features {
 public:
  Features() = default;
  // `data` points to as many bytes as `spec` says, and owns them.
  Features(v1::TensorSpec spec, std::shared_ptr<const std::byte> data)
      : spec_(std::move(spec)), data_(std::move(data)) {}
  Features(Features&&) noexcept = default;
  Features& operator=(Features&&) noexcept = default;

  // Element type, shape (rows, channels, height and width of a row's pixels; frames behind the channels) and size.
  const v1::TensorSpec& spec() const noexcept { return spec_; }
  const std::byte* data() const noexcept { return data_.get(); }
  std::size_t size_bytes() const noexcept { return data_ == nullptr ? 0 : spec_.size_bytes(); }
  std::size_t element_count() const noexcept {
    return data_ == nullptr ? 0 : size_bytes() / element_bytes(spec_.data_type());
  }

  // The first of `element_count()` elements: float for FLOAT32, std::uint16_t (the bits) for BFLOAT16 and FLOAT16,
  // std::uint8_t for UINT8. Throws std::invalid_argument where T is not the type of the elements.
  template <typename T>
  const T* elements() const {
    const v1::DataType data_type = spec_.data_type();
    const bool fits = std::is_same_v<T, float>           ? data_type == v1::DATA_TYPE_FLOAT32
                      : std::is_same_v<T, std::uint8_t>  ? data_type == v1::DATA_TYPE_UINT8
                      : std::is_same_v<T, std::uint16_t> ? element_bytes(data_type) == sizeof(T)
                                                         : false;
    if (!fits) throw std::invalid_argument("Expected the type of the elements, got " + v1::DataType_Name(data_type));
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  v1::TensorSpec spec_;
  std::shared_ptr<const std::byte> data_;
};

// Collects the chunks of one item, or takes its handle. Throws ProtocolError where they are not what the plan said.
class FeatureAssembly {
 public:
  // `spec` is the plan's. It has to agree with itself, with the stream's element type and with its limit.
  FeatureAssembly(v1::TensorSpec spec, v1::DataType data_type, std::uint32_t max_feature_bytes)
      : spec_(std::move(spec)) {
    if (spec_.data_type() != data_type || element_bytes(data_type) == 0) {
      throw ProtocolError("Expected a plan of " + v1::DataType_Name(data_type) + ", got " +
                          v1::DataType_Name(spec_.data_type()));
    }
    std::uint64_t size_bytes = spec_.shape_size() == 0 ? 0 : element_bytes(data_type);
    for (const std::int64_t length : spec_.shape()) {
      // Each factor is checked, so that the product can not run over: no tensor has more than 2^32 bytes.
      if (length < 1 || length > std::numeric_limits<std::uint32_t>::max()) size_bytes = 0;
      size_bytes *= static_cast<std::uint64_t>(length);
      if (size_bytes > std::numeric_limits<std::uint32_t>::max()) size_bytes = 0;
    }
    if (size_bytes == 0 || size_bytes != spec_.size_bytes()) {
      throw ProtocolError("Expected a plan whose size is that of its shape, got " + spec_.ShortDebugString());
    }
    if (size_bytes > max_feature_bytes) {
      throw ProtocolError("Expected a plan of at most " + std::to_string(max_feature_bytes) + " bytes, got " +
                          std::to_string(size_bytes));
    }
  }

  // Takes the next chunk.
  void add(const v1::FeatureChunk& chunk) {
    if (mapped_ != nullptr) throw ProtocolError("Expected no chunk of features that came by handle, got one");
    if (chunk.offset_bytes() != received_bytes_) {
      throw ProtocolError("Expected a chunk at byte " + std::to_string(received_bytes_) + ", got one at " +
                          std::to_string(chunk.offset_bytes()));
    }
    const std::size_t missing_bytes = spec_.size_bytes() - received_bytes_;
    if (chunk.data().empty() || chunk.data().size() > missing_bytes) {
      throw ProtocolError("Expected a chunk of 1 to " + std::to_string(missing_bytes) + " bytes, got one of " +
                          std::to_string(chunk.data().size()));
    }
    // Not made at the plan: plans run ahead of features. Not zeroed: every byte is written before it is handed out.
    if (data_ == nullptr) data_.reset(new std::byte[spec_.size_bytes()]);
    std::memcpy(data_.get() + received_bytes_, chunk.data().data(), chunk.data().size());
    received_bytes_ += chunk.data().size();
  }

  // Takes features that came by a handle: `map` returns a pointer to them, and is called once all else is right.
  template <typename Map>
  void place(const v1::SharedMemoryHandle& handle, Map&& map) {
    if (mapped_ != nullptr || received_bytes_ != 0) {
      throw ProtocolError("Expected features in chunks or by one handle, got a handle besides");
    }
    if (handle.length_bytes() != spec_.size_bytes()) {
      throw ProtocolError("Expected a handle of " + std::to_string(spec_.size_bytes()) + " bytes, as planned, got " +
                          std::to_string(handle.length_bytes()));
    }
    if (handle.offset_bytes() % element_bytes(spec_.data_type()) != 0) {
      throw ProtocolError("Expected a handle at a multiple of an element's size, got one at byte " +
                          std::to_string(handle.offset_bytes()));
    }
    mapped_ = map();
  }

  // Hands the whole tensor out, once.
  Features finish() {
    if (mapped_ != nullptr) return Features(std::move(spec_), std::move(mapped_));
    if (received_bytes_ != spec_.size_bytes()) {
      throw ProtocolError("Expected " + std::to_string(spec_.size_bytes()) + " bytes before the completion, got " +
                          std::to_string(received_bytes_));
    }
    const std::shared_ptr<std::byte[]> whole = std::move(data_);
    return Features(std::move(spec_), std::shared_ptr<const std::byte>(whole, whole.get()));
  }

 private:
  v1::TensorSpec spec_;
  std::unique_ptr<std::byte[]> data_;
  std::size_t received_bytes_ = 0;
  std::shared_ptr<const std::byte> mapped_;
};

}  // namespace monopath

#endif  // MONOPATH_FEATURES_H_
