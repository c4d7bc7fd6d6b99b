// Shared memory as clients and servers of one host use it: files in a directory such as /dev/shm.
//
// Both sides make segments of their own and read the other's, by rules that hold in every language. A process that
// makes segments has an owner's file `monopath-<owner>` with a lock for as long as it lives; its segments are named
// `monopath-<owner>-<segment>`, both parts being 128 random bits in hexadecimal. The lock dies with the process, so
// anybody may sweep what owners without one left behind. A segment never shrinks. Who reads does not trust: names are
// checked, links are not followed, and only regular files are read.
#ifndef MONOPATH_SEGMENTS_H_
#define MONOPATH_SEGMENTS_H_

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace monopath::detail {

// A segment can not be read.
class SegmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void throw_errno(int code = errno) { throw std::system_error(code, std::generic_category()); }

// `count` bytes that nobody can guess.
inline std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (getentropy(bytes.data(), count) != 0) throw_errno();
  return bytes;
}

// 128 random bits in hexadecimal.
inline std::string random_name() {
  std::string name;
  for (const char byte : random_bytes(16)) {
    for (const int shift : {4, 0}) name += "0123456789abcdef"[(static_cast<unsigned char>(byte) >> shift) & 0xf];
  }
  return name;
}

// Whether a name is one of `part_count` random parts behind "monopath": 1 for an owner's, 2 for a segment's.
inline bool is_shared_name(const std::string& name, std::size_t part_count) {
  constexpr std::size_t kPartLetters = 33;
  const std::string prefix = "monopath";
  if (name.size() != prefix.size() + part_count * kPartLetters || name.rfind(prefix, 0) != 0) return false;
  for (std::size_t index = prefix.size(); index < name.size(); ++index) {
    const bool is_dash = (index - prefix.size()) % kPartLetters == 0;
    constexpr std::string_view kHexadecimal = "0123456789abcdef";
    if (is_dash ? name[index] != '-' : kHexadecimal.find(name[index]) == std::string_view::npos) return false;
  }
  return true;
}

// An open file.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }

  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const noexcept { return number_; }

  struct stat status() const {
    struct stat status;
    if (::fstat(number_, &status) != 0) throw_errno();
    return status;
  }

 private:
  int number_;
};

// A whole segment in this process's memory, for as long as this lives; the file may be unlinked meanwhile.
class Mapping {
 public:
  // Throws std::system_error where it can not be mapped.
  Mapping(const Descriptor& file, std::size_t size_bytes, int protection) : size_bytes_(size_bytes) {
    void* const address = ::mmap(nullptr, size_bytes, protection, MAP_SHARED, file.number(), 0);
    if (address == MAP_FAILED) throw_errno();
    data_ = static_cast<std::byte*>(address);
  }
  ~Mapping() { ::munmap(data_, size_bytes_); }

  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_;
  std::size_t size_bytes_;
};

// A segment of this process, mapped for writing.
struct OwnSegment {
  std::string name;
  std::unique_ptr<Mapping> memory;
};

// Unlinks what owners that are dead left in a directory. What lives, or belongs to other users, is left alone.
inline void sweep(const std::filesystem::path& directory) {
  std::map<std::string, std::vector<std::string>> owned;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_shared_name(name, 1)) owned[name];
    if (is_shared_name(name, 2)) owned[name.substr(0, name.rfind('-'))].push_back(name);
  }
  for (const auto& [owner, names] : owned) {
    const std::filesystem::path owner_path = directory / owner;
    const int number = ::open(owner_path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    // An owner's file goes last: without one, a sweep was interrupted.
    if (number < 0 && errno != ENOENT) continue;
    const std::unique_ptr<const Descriptor> file = number < 0 ? nullptr : std::make_unique<Descriptor>(number);
    if (file && ::flock(number, LOCK_EX | LOCK_NB) != 0) continue;
    for (const std::string& name : names) ::unlink((directory / name).c_str());
    if (file) ::unlink(owner_path.c_str());
  }
}

// Makes segments in a directory, and takes all of them away when it goes. For any thread.
class SegmentOwner {
 public:
  // Throws std::system_error where the directory can not be used.
  explicit SegmentOwner(std::filesystem::path directory) : directory_(std::move(directory)) {
    while (lock_ == nullptr) {
      name_ = "monopath-" + random_name();
      std::unique_ptr<Descriptor> file = create_file(name_);
      struct stat named;
      if (::flock(file->number(), LOCK_EX | LOCK_NB) == 0 && ::lstat(path(name_).c_str(), &named) == 0 &&
          named.st_ino == file->status().st_ino && named.st_dev == file->status().st_dev) {
        lock_ = std::move(file);
      }
      // Else a sweep came between the two: it found a file without a lock, and takes it away.
    }
  }

  ~SegmentOwner() {
    // A forked child has no say over its parent's segments.
    if (::getpid() != process_id_) return;
    for (const std::string& name : names_) ::unlink(path(name).c_str());
    ::unlink(path(name_).c_str());
  }

  SegmentOwner(const SegmentOwner&) = delete;
  SegmentOwner& operator=(const SegmentOwner&) = delete;

  // Makes a segment with all its memory in place: a write to it can not fail later. Throws std::system_error where
  // there is no room for it.
  OwnSegment create(std::size_t size_bytes) {
    OwnSegment segment{name_ + "-" + random_name(), nullptr};
    {
      const std::lock_guard lock(mutex_);
      names_.insert(segment.name);
    }
    try {
      const std::unique_ptr<Descriptor> file = create_file(segment.name);
      int code;
      // Without it a full directory is noticed by SIGBUS, at the first write.
      while ((code = ::posix_fallocate(file->number(), 0, static_cast<off_t>(size_bytes))) == EINTR) {
      }
      if (code != 0) throw_errno(code);
      segment.memory = std::make_unique<Mapping>(*file, size_bytes, PROT_READ | PROT_WRITE);
    } catch (...) {
      unlink(segment.name);
      throw;
    }
    return segment;
  }

  // Takes a segment's name away: nobody can open it any more; who has mapped it can still read it.
  void unlink(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (names_.erase(name) != 0) ::unlink(path(name).c_str());
  }

 private:
  std::filesystem::path path(const std::string& name) const { return directory_ / name; }

  std::unique_ptr<Descriptor> create_file(const std::string& name) const {
    const int number = ::open(path(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (number < 0) throw_errno();
    return std::make_unique<Descriptor>(number);
  }

  std::filesystem::path directory_;
  pid_t process_id_ = ::getpid();
  std::string name_;
  std::unique_ptr<Descriptor> lock_;
  std::mutex mutex_;
  std::set<std::string> names_;
};

// Opens a segment that another process made. Throws SegmentError where there is none of that name, std::system_error
// where this process can not open any more files.
inline std::unique_ptr<Descriptor> open_segment(const std::filesystem::path& directory, const std::string& name) {
  if (!is_shared_name(name, 2)) {
    throw SegmentError("Expected a name of the form monopath-<32 hex>-<32 hex>, got another");
  }
  // Of a pipe even the opening would wait for its other end.
  const int number = ::open((directory / name).c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (number < 0) {
    if (errno == EMFILE || errno == ENFILE) throw_errno();
    throw SegmentError("Expected a segment that can be read, got none: " + std::generic_category().message(errno));
  }
  auto file = std::make_unique<Descriptor>(number);
  if (!S_ISREG(file->status().st_mode)) {
    throw SegmentError("Expected a segment, got something that is not a regular file");
  }
  return file;
}

// The first bytes of a segment that another process made, fewer where it has not as many. Throws as `open_segment`.
inline std::string read_segment(const std::filesystem::path& directory, const std::string& name, std::size_t count) {
  const std::unique_ptr<Descriptor> file = open_segment(directory, name);
  std::string bytes(count, '\0');
  const ssize_t read_count = ::pread(file->number(), bytes.data(), count, 0);
  if (read_count < 0) throw_errno();
  bytes.resize(static_cast<std::size_t>(read_count));
  return bytes;
}

}  // namespace monopath::detail

#endif  // MONOPATH_SEGMENTS_H_
