// Segments, mappings and uploads, without a server.

#include <monopath/mappings.h>
#include <monopath/segments.h>
#include <monopath/uploads.h>
#include <sys/stat.h>

#include <fstream>

#include "check.h"
#include "folder.h"
#include "server_memory.h"

namespace monopath::tests {
namespace {

using detail::SegmentMappings;
using detail::SegmentOwner;

const std::string kHex(32, 'a');
const std::string kSegmentName = "monopath-" + kHex + "-" + kHex;

std::string text(const std::shared_ptr<const std::byte>& bytes, std::size_t count) {
  return {reinterpret_cast<const char*>(bytes.get()), count};
}

void write(const std::filesystem::path& file) { std::ofstream(file) << "x"; }

// Whether somebody else holds the lock of an owner's file.
bool is_locked(const std::filesystem::path& file) {
  const detail::Descriptor descriptor(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  return ::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0;
}

const std::vector<Test> kTests = {
    {"an owner's file is locked, its segments are for its user only, and all of them go with it",
     [] {
       Folder folder;
       {
         SegmentOwner owner(folder.path());
         const std::string owner_name = *folder.names().begin();
         CHECK(detail::is_shared_name(owner_name, 1));
         CHECK(is_locked(folder.path() / owner_name));
         const detail::OwnSegment segment = owner.create(5000);
         CHECK_EQUAL(segment.memory->size_bytes(), 5000u);
         CHECK(detail::is_shared_name(segment.name, 2));
         CHECK_EQUAL(segment.name.rfind(owner_name, 0), 0u);
         struct stat status;
         CHECK_EQUAL(::stat((folder.path() / segment.name).c_str(), &status), 0);
         CHECK_EQUAL(status.st_mode & 0777u, 0600u);
         CHECK_EQUAL(status.st_size, 5000);
         const detail::OwnSegment unlinked = owner.create(1);
         owner.unlink(unlinked.name);
         CHECK_EQUAL(folder.names().count(unlinked.name), 0u);
       }
       CHECK(folder.names().empty());
     }},
    {"a segment that there is no room for leaves nothing behind",
     [] {
       Folder folder;
       SegmentOwner owner(folder.path());
       thrown_by<std::system_error>([&] { owner.create(std::size_t{1} << 62); });
       CHECK_EQUAL(folder.names().size(), 1u);
     }},
    {"a sweep takes what dead owners left, and nothing else",
     [] {
       Folder folder;
       SegmentOwner owner(folder.path());
       owner.create(1);
       const std::set<std::string> alive = folder.names();
       const std::string orphan = "monopath-" + std::string(32, 'b') + "-" + kHex;
       for (const std::string& name : {"monopath-" + kHex, kSegmentName, orphan}) write(folder.path() / name);
       for (const std::string& name : {std::string("monopath-1"), kSegmentName + "0"}) write(folder.path() / name);
       detail::sweep(folder.path());
       CHECK_EQUAL(folder.names().size(), alive.size() + 2);
       for (const std::string& name : alive) CHECK_EQUAL(folder.names().count(name), 1u);
       detail::sweep(folder.path() / "nowhere");
     }},
    {"only names of segments are opened, no links are followed, and only regular files are read",
     [] {
       Folder folder;
       const auto open = [&](const std::string& name) { detail::open_segment(folder.path(), name); };
       for (const std::string& name : {std::string(), "monopath-" + kHex, "../" + kSegmentName, kSegmentName + "/",
                                       "Monopath" + kSegmentName.substr(8), kSegmentName.substr(1) + "A"}) {
         write(folder.path() / "file");
         thrown_by<detail::SegmentError>([&] { open(name); });
       }
       // A NUL would end the path before its name.
       CHECK(!detail::is_shared_name(std::string(kSegmentName).replace(20, 1, 1, '\0'), 2));
       thrown_by<detail::SegmentError>([&] { open(kSegmentName); });
       std::filesystem::create_symlink(folder.path() / "file", folder.path() / kSegmentName);
       thrown_by<detail::SegmentError>([&] { open(kSegmentName); });
       std::filesystem::remove(folder.path() / kSegmentName);
       CHECK_EQUAL(::mkfifo((folder.path() / kSegmentName).c_str(), 0600), 0);
       thrown_by<detail::SegmentError>([&] { open(kSegmentName); });
     }},
    {"a handle leads to its bytes, and to none beyond its segment or of another use",
     [] {
       Folder folder;
       ServerMemory server(folder.path());
       const auto mappings = std::make_shared<SegmentMappings>(folder.path());
       const v1::SharedMemoryHandle right = server.put("features");
       CHECK_EQUAL(text(mappings->map(right), 8), "features");
       const std::uint64_t most = ~std::uint64_t{0};
       for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
                {kHeaderBytes, 9}, {kHeaderBytes + 1, 8}, {kHeaderBytes, 0}, {most, 2}, {2, most}, {most, most}}) {
         v1::SharedMemoryHandle wrong = right;
         wrong.set_offset_bytes(offset);
         wrong.set_length_bytes(length);
         thrown_by<detail::SegmentError>([&] { mappings->map(wrong); });
       }
       v1::SharedMemoryHandle late = right;
       late.set_generation(2);
       thrown_by<detail::SegmentError>([&] { mappings->map(late); });
       write(folder.path() / kSegmentName);
       late.set_name(kSegmentName);
       late.set_offset_bytes(0);
       late.set_length_bytes(1);
       thrown_by<detail::SegmentError>([&] { mappings->map(late); });
       late.set_name("monopath-" + kHex + "-" + std::string(32, 'b'));
       std::ofstream(folder.path() / late.name());
       thrown_by<detail::SegmentError>([&] { mappings->map(late); });
     }},
    {"a mapping is used again, shows what its server wrote since, and outlives the segment's name",
     [] {
       Folder folder;
       SegmentOwner owner(folder.path());
       detail::OwnSegment segment = owner.create(2 * kHeaderBytes);
       const auto mappings = std::make_shared<SegmentMappings>(folder.path());
       CHECK_EQUAL(text(mappings->map(fill(segment, 1, "first")), 5), "first");
       CHECK_EQUAL(mappings->idle_bytes(), 2 * kHeaderBytes);
       owner.unlink(segment.name);
       CHECK_EQUAL(text(mappings->map(fill(segment, 2, "second")), 6), "second");
     }},
    {"what two items lease is mapped once",
     [] {
       Folder folder;
       ServerMemory server(folder.path());
       const auto mappings = std::make_shared<SegmentMappings>(folder.path());
       const v1::SharedMemoryHandle both = server.put("features");
       std::shared_ptr<const std::byte> one = mappings->map(both);
       const std::shared_ptr<const std::byte> other = mappings->map(both);
       CHECK(one == other);
       one.reset();
       CHECK_EQUAL(mappings->idle_bytes(), 0u);
       CHECK_EQUAL(text(other, 8), "features");
     }},
    {"what is read stays mapped when mappings are closed, and what is not is bounded",
     [] {
       Folder folder;
       ServerMemory server(folder.path());
       auto mappings = std::make_shared<SegmentMappings>(folder.path(), 2 * (kHeaderBytes + 4));
       std::vector<std::shared_ptr<const std::byte>> held;
       for (int count = 0; count < 3; ++count) held.push_back(mappings->map(server.put("abcd")));
       CHECK_EQUAL(mappings->idle_bytes(), 0u);
       held.pop_back();
       CHECK_EQUAL(mappings->idle_bytes(), kHeaderBytes + 4);
       const std::shared_ptr<const std::byte> kept = held[0];
       held.clear();
       held.push_back(mappings->map(server.put("efgh")));
       held.push_back(mappings->map(server.put("ijkl")));
       held.clear();
       CHECK_EQUAL(mappings->idle_bytes(), 2 * (kHeaderBytes + 4));
       mappings->close();
       CHECK_EQUAL(mappings->idle_bytes(), 0u);
       mappings.reset();
       CHECK_EQUAL(text(kept, 4), "abcd");
     }},
    {"an upload's segment is used again once it was given back, and never when it was dropped",
     [] {
       Folder folder;
       SegmentOwner owner(folder.path());
       detail::UploadPool pool(owner);
       const std::string first(200000, '1'), second(201000, '2');
       const std::unique_ptr<detail::Upload> one = pool.put(first);
       CHECK_EQUAL(detail::read_segment(folder.path(), one->handle().name(), first.size()), first);
       std::unique_ptr<detail::Upload> other = pool.put(second);
       CHECK(other->handle().name() != one->handle().name());
       CHECK(other->handle().generation() > one->handle().generation());
       one->give_back();
       one->give_back();
       const std::unique_ptr<detail::Upload> again = pool.put(second);
       CHECK_EQUAL(again->handle().name(), one->handle().name());
       CHECK_EQUAL(again->handle().length_bytes(), second.size());
       CHECK(again->handle().generation() > other->handle().generation());
       const std::string dropped = other->handle().name();
       other.reset();
       CHECK_EQUAL(folder.names().count(dropped), 0u);
     }},
    {"idle segments are bounded, and there may be no room for another",
     [] {
       Folder folder;
       SegmentOwner owner(folder.path());
       detail::UploadPool pool(owner, 300000);
       const std::unique_ptr<detail::Upload> one = pool.put(std::string(200000, '1'));
       const std::unique_ptr<detail::Upload> other = pool.put(std::string(200000, '2'));
       one->give_back();
       other->give_back();
       CHECK_EQUAL(folder.names().size(), 2u);
       CHECK_EQUAL(folder.names().count(other->handle().name()), 1u);
       std::filesystem::remove_all(folder.path());
       CHECK(pool.put(std::string(1000000, '3')) == nullptr);
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
