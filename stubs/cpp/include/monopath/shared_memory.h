// Features and images in memory that this process shares with a server of its host. For Linux.
//
//   options.transport = std::make_shared<monopath::SharedMemory>();
#ifndef MONOPATH_SHARED_MEMORY_H_
#define MONOPATH_SHARED_MEMORY_H_

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "monopath/error.h"
#include "monopath/mappings.h"
#include "monopath/segments.h"
#include "monopath/transport.h"
#include "monopath/uploads.h"

namespace monopath {

// A client's own shared memory, for all its streams. Features lie over the server's memory, without a copy, and large
// images and local features go to the server in memory of this object's, which goes with it. Where one of the two is
// full, bytes travel in messages instead. For any thread.
class SharedMemory final : public Transport {
 public:
  // The server's directory has to be the same one. Throws StreamError with the reason TRANSPORT_UNAVAILABLE where this
  // process can not use it.
  explicit SharedMemory(std::filesystem::path directory = "/dev/shm")
      : directory_(std::move(directory)), owner_(make_owner(directory_)), uploads_(*owner_) {
    try {
      probe_segment_ = owner_->create(kProbeBytes);
      const std::string nonce = detail::random_bytes(kNonceBytes);
      std::memcpy(probe_segment_.memory->data(), nonce.data(), nonce.size());
      probe_.set_name(probe_segment_.name);
      probe_.set_nonce(nonce);
    } catch (const std::system_error& error) {
      throw unusable(directory_, error);
    }
  }

  // Asks for it, with a secret by which the server sees that it looks into the same directory.
  void ask(v1::OutputConfig& output) const override { *output.mutable_shared_memory()->mutable_probe() = probe_; }

  std::unique_ptr<detail::Carrier> carry_stream() override { return std::make_unique<StreamCarrier>(*this); }

 private:
  static constexpr std::size_t kProbeBytes = 4096;
  static constexpr std::size_t kNonceBytes = 32;
  static constexpr std::size_t kMinNonceBytes = 16;
  // Fewer are sooner sent in a message than opened, read and closed as a file.
  static constexpr std::size_t kMinUploadBytes = std::size_t{128} << 10;

  class StreamCarrier final : public detail::Carrier {
   public:
    explicit StreamCarrier(SharedMemory& memory)
        : memory_(memory), mappings_(std::make_shared<detail::SegmentMappings>(memory.directory_)) {}
    ~StreamCarrier() override { mappings_->close(); }

    void check(const v1::Ready& ready) override {
      const v1::SharedMemoryProbe& probe = ready.shared_memory().probe();
      if (probe.nonce().size() < kMinNonceBytes) {
        throw ProtocolError("Expected ready with " + std::to_string(kMinNonceBytes) +
                            " bytes or more to find in shared memory, got " + std::to_string(probe.nonce().size()));
      }
      try {
        const std::string found = detail::read_segment(memory_.directory_, probe.name(), probe.nonce().size());
        if (found != probe.nonce()) throw detail::SegmentError("a segment of its name with other bytes in it");
      } catch (const std::runtime_error& error) {
        throw elsewhere(memory_.directory_, error.what());
      }
    }

    std::shared_ptr<const std::byte> map(const v1::SharedMemoryHandle& handle) override {
      try {
        return mappings_->map(handle);
      } catch (const detail::SegmentError& error) {
        throw ProtocolError("Expected a handle of shared memory that can be mapped, got one that cannot: " +
                            std::string(error.what()));
      } catch (const std::system_error& error) {
        throw StreamError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                          "Expected room to map another segment, got none: " + error.code().message() +
                              "; hold fewer results at a time",
                          {});
      }
    }

    std::unique_ptr<detail::Upload> upload(const std::string& bytes) override {
      return bytes.size() < kMinUploadBytes ? nullptr : memory_.uploads_.put(bytes);
    }

   private:
    SharedMemory& memory_;
    std::shared_ptr<detail::SegmentMappings> mappings_;
  };

  static std::unique_ptr<detail::SegmentOwner> make_owner(const std::filesystem::path& directory) {
    try {
      detail::sweep(directory);
      return std::make_unique<detail::SegmentOwner>(directory);
    } catch (const std::system_error& error) {
      throw unusable(directory, error);
    }
  }

  // The server's own refusal is the same.
  static StreamError unavailable(std::string message) {
    StatusDetails details;
    details.reason = reason_name(v1::STREAM_ERROR_REASON_TRANSPORT_UNAVAILABLE);
    return {grpc::StatusCode::FAILED_PRECONDITION, std::move(message), std::move(details)};
  }

  static StreamError unusable(const std::filesystem::path& directory, const std::system_error& error) {
    return unavailable("Expected a directory for shared memory that this process can write to, got " +
                       directory.string() + " (" + error.code().message() +
                       "); give SharedMemory another, or leave the transport out for inline");
  }

  static StreamError elsewhere(const std::filesystem::path& directory, const std::string& got) {
    return unavailable("Expected the server's shared memory in " + directory.string() + ", got " + got +
                       ". Client and server have to run on one host, as one user, and see the same directory: "
                       "containers need --ipc (and --shm-size) or a volume, which SharedMemory is given; without that "
                       "leave the transport out for inline");
  }

  const std::filesystem::path directory_;
  const std::unique_ptr<detail::SegmentOwner> owner_;
  detail::UploadPool uploads_;
  detail::OwnSegment probe_segment_;
  v1::SharedMemoryProbe probe_;
};

}  // namespace monopath

#endif  // MONOPATH_SHARED_MEMORY_H_
