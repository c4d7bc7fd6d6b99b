// How the features and images of a stream travel, where that is not in its messages: `SharedMemory` is such a way.
#ifndef MONOPATH_TRANSPORT_H_
#define MONOPATH_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "monopath/v1/config.pb.h"
#include "monopath/v1/event.pb.h"
#include "monopath/v1/location.pb.h"

namespace monopath {
namespace detail {

// The bytes of one item on their way to the server, in memory that it reads: as they are until the item has ended.
class Upload {
 public:
  // Of an item without an end, whose memory the server may read still: nobody writes to it again.
  virtual ~Upload() = default;

  virtual const v1::SharedMemoryHandle& handle() const noexcept = 0;

  // The item has ended: its memory may be used for another one.
  virtual void give_back() = 0;
};

// Carries the bytes of one of the server's streams. For one thread at a time.
class Carrier {
 public:
  // What was mapped stays mapped as long as it is held.
  virtual ~Carrier() = default;

  // Tries what the server offers. Throws StreamError where it can not be used, ProtocolError where it is none.
  virtual void check(const v1::Ready& ready) = 0;

  // The bytes that a handle of the server's leads to, for reading; mapped as long as the pointer or a copy of it lives.
  // Throws ProtocolError where it leads to none, StreamError where this process can not map any more.
  virtual std::shared_ptr<const std::byte> map(const v1::SharedMemoryHandle& handle) = 0;

  // Puts the bytes of an item where the server reads them. nullptr: they are better sent in messages.
  virtual std::unique_ptr<Upload> upload(const std::string& bytes) = 0;
};

}  // namespace detail

// What a stream is given to have its bytes carried. For any thread, and for any number of streams.
class Transport {
 public:
  virtual ~Transport() = default;

  // Asks for this transport.
  virtual void ask(v1::OutputConfig& output) const = 0;

  // What carries one stream; not used any more when this is gone.
  virtual std::unique_ptr<detail::Carrier> carry_stream() = 0;
};

}  // namespace monopath

#endif  // MONOPATH_TRANSPORT_H_
