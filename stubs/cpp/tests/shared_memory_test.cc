// Streams over shared memory, over a real connection, with a server in this process that plays a script.

#include <monopath/shared_memory.h>

#include <future>
#include <memory>
#include <string>

#include "check.h"
#include "folder.h"
#include "scripts.h"
#include "server_memory.h"

namespace monopath::tests {
namespace {

// A directory, what the server has in it, and what the client has.
struct Shared {
  Folder folder;
  ServerMemory server{folder.path()};
  StreamOptions options;

  Shared() { options.transport = std::make_shared<SharedMemory>(folder.path()); }

  void open(Side& side) const {
    side.expect_config();
    side.say(server.ready());
  }

  void complete(Side& side, std::int32_t id, const std::string& features) {
    side.say(plan(id, static_cast<std::uint32_t>(features.size())));
    side.say(handle(id, server.put(features)));
    side.say(completion(id));
  }
};

// Returns the id of the item that is given back.
std::int32_t expect_release(Side& side) {
  const Cpu::Request request = side.hear();
  if (!request.has_release()) throw std::runtime_error("Expected a release, got " + request.ShortDebugString());
  return request.release().id();
}

std::string text(const Features& features) {
  return {reinterpret_cast<const char*>(features.data()), features.size_bytes()};
}

const std::vector<Test> kTests = {
    {"the config shows the server a secret in a segment of the client's, which goes with the client",
     [] {
       Shared shared;
       std::string seen;
       FakeServer server({[&](Side& side) {
         const v1::OutputConfig output = side.hear().config().output();
         const v1::SharedMemoryProbe& probe = output.shared_memory().probe();
         if (probe.nonce().size() < 16) throw std::runtime_error("Expected 16 bytes or more");
         if (!output.group_responses()) throw std::runtime_error("Expected groups to be asked for");
         const std::string found =
             detail::read_segment(shared.folder.path(), probe.name(), probe.nonce().size());
         if (found != probe.nonce()) throw std::runtime_error("Expected the secret in the segment");
         seen = probe.name();
         side.say(shared.server.ready());
         return end(side, 0);
       }});
       Stream<Cpu>(server.channel(), config(), shared.options).finish();
       CHECK_EQUAL(shared.folder.names().count(seen), 1u);
       shared.options.transport.reset();
       CHECK_EQUAL(shared.folder.names().count(seen), 0u);
     }},
    {"features are given back once they are dropped or assigned to, and not when they are moved",
     [] {
       Shared shared;
       std::string released;
       FakeServer server({[&](Side& side) {
         shared.open(side);
         shared.complete(side, side.expect_item(), "first");
         shared.complete(side, side.expect_item(), "second");
         for (int count = 0; count < 2; ++count) released += std::to_string(expect_release(side));
         return end(side, 2);
       }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       stream.send(item());
       stream.send(item());
       std::optional<Result<Cpu>> first = stream.next();
       std::optional<Result<Cpu>> second = stream.next();
       Features moved = std::move(first->features);
       first.reset();
       CHECK_EQUAL(text(moved), "first");
       Features target;
       target = std::move(second->features);
       CHECK_EQUAL(text(target), "second");
       CHECK_EQUAL(text(second->features), "");
       CHECK(second->features.data() == nullptr);
       target = Features();
       moved = Features();
       CHECK_EQUAL(stream.finish().completed_count(), 2u);
       CHECK_EQUAL(released, "21");
     }},
    {"features outlive the stream, the client's memory, and the segment's name",
     [] {
       auto shared = std::make_unique<Shared>();
       Features features;
       {
         FakeServer server({[&](Side& side) {
           shared->open(side);
           shared->complete(side, side.expect_item(), "features");
           return end(side, 1);
         }});
         Stream<Cpu> stream(server.channel(), config(), shared->options);
         stream.send(item());
         features = std::move(stream.next()->features);
         stream.finish();
       }
       shared.reset();
       CHECK_EQUAL(text(features), "features");
     }},
    {"features that nobody took are given back by the stream's end, and may be dropped in another thread",
     [] {
       Shared shared;
       FakeServer server({[&](Side& side) {
         shared.open(side);
         for (int count = 0; count < 2; ++count) shared.complete(side, side.expect_item(), "features");
         if (expect_release(side) != 1) throw std::runtime_error("Expected the release of item 1");
         return end(side, 2);
       }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       stream.send(item());
       stream.send(item());
       std::async(std::launch::async, [result = stream.next()]() mutable { result.reset(); }).get();
       CHECK_EQUAL(stream.finish().completed_count(), 2u);
     }},
    {"memory of an item that failed after all is given back, and not on the stream that follows",
     [] {
       Shared shared;
       FakeServer server({[&](Side& side) {
                            shared.open(side);
                            const std::int32_t id = side.expect_item();
                            side.say(plan(id, 8));
                            side.say(handle(id, shared.server.put("features")));
                            side.say(item_error(id, v1::ITEM_ERROR_REASON_INTERNAL));
                            if (expect_release(side) != id) throw std::runtime_error("Expected its release");
                            const std::int32_t last_id = side.expect_item();
                            side.say(goaway());
                            shared.complete(side, last_id, "features");
                            return end(side, 1, 1);
                          },
                          [&](Side& side) {
                            shared.open(side);
                            shared.complete(side, side.expect_item(), "features");
                            if (expect_release(side) != 3) throw std::runtime_error("Expected that of item 3");
                            return end(side, 1);
                          }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       stream.send(item());
       CHECK(!stream.next()->ok());
       stream.send(item());
       std::optional<Result<Cpu>> second = stream.next();
       stream.send(item());
       second.reset();
       CHECK_EQUAL(text(stream.next()->features), "features");
       CHECK_EQUAL(stream.finish().completed_count(), 2u);
       CHECK_EQUAL(server.stream_count(), 2);
     }},
    {"an item that the server has no shared memory for comes in chunks",
     [] {
       Shared shared;
       FakeServer server({[&](Side& side) {
         shared.open(side);
         complete(side, side.expect_item(), "in chunks");
         shared.complete(side, side.expect_item(), "by handle");
         if (expect_release(side) != 2) throw std::runtime_error("Expected the release of item 2");
         return end(side, 2);
       }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       std::string seen;
       stream.map(source_of(2), [&](Result<Cpu> result) { seen += text(result.features) + " "; });
       CHECK_EQUAL(seen, "in chunks by handle ");
     }},
    {"a directory that is not there is told with the contract's reason",
     [] {
       const StreamError error = thrown_by<StreamError>([] { SharedMemory("/nowhere"); });
       CHECK_EQUAL(error.reason(), "TRANSPORT_UNAVAILABLE");
       CHECK_EQUAL(code_name(error.code()), "FAILED_PRECONDITION");
       CHECK(error.message().find("/nowhere (No such file or directory)") != std::string::npos);
     }},
    {"a server whose segment is not found, or has another secret in it, is not used",
     [] {
       for (const bool is_found : {false, true}) {
         Shared shared;
         Folder elsewhere;
         ServerMemory stranger(elsewhere.path());
         std::promise<bool> cancelled;
         FakeServer server({[&](Side& side) {
           side.expect_config();
           Response response = stranger.ready();
           if (is_found) {
             *response.mutable_ready()->mutable_shared_memory()->mutable_probe()->mutable_name() =
                 shared.server.ready().ready().shared_memory().probe().name();
           }
           side.say(response);
           cancelled.set_value(side.wait_for_cancellation());
           return grpc::Status::OK;
         }});
         const StreamError error =
             thrown_by<StreamError>([&] { Stream<Cpu>(server.channel(), config(), shared.options); });
         CHECK_EQUAL(error.reason(), "TRANSPORT_UNAVAILABLE");
         CHECK(error.message().find(shared.folder.path().string()) != std::string::npos);
         CHECK(cancelled.get_future().get());
         CHECK_EQUAL(server.stream_count(), 1);
       }
     }},
    {"a config that names a transport besides that of the options is refused before anything is sent",
     [] {
       Shared shared;
       FakeServer server({[](Side& side) { return end(side, 0); }});
       Cpu::Config named = config();
       named.mutable_output()->mutable_inline_();
       thrown_by<std::invalid_argument>([&] { Stream<Cpu>(server.channel(), named, shared.options); });
       CHECK_EQUAL(server.stream_count(), 0);
     }},
    {"a server that proves nothing is not believed",
     [] {
       Shared shared;
       FakeServer server({[&](Side& side) {
         side.expect_config();
         side.say(ready());
         side.wait_for_cancellation();
         return grpc::Status::OK;
       }});
       thrown_by<ProtocolError>([&] { Stream<Cpu>(server.channel(), config(), shared.options); });
     }},
    {"a server that can not see the client's memory refuses with its reason",
     [] {
       Shared shared;
       FakeServer server({[](Side& side) {
         side.expect_config();
         side.say(failure(v1::STREAM_ERROR_REASON_TRANSPORT_UNAVAILABLE, "elsewhere"));
         side.expect_half_close();
         return status_with_reason(grpc::StatusCode::FAILED_PRECONDITION, "elsewhere", "TRANSPORT_UNAVAILABLE");
       }});
       const StreamError error =
           thrown_by<StreamError>([&] { Stream<Cpu>(server.channel(), config(), shared.options); });
       CHECK_EQUAL(error.reason(), "TRANSPORT_UNAVAILABLE");
     }},
    {"handles that lead nowhere, or not to what was planned, break the grammar",
     [] {
       Shared shared;
       const v1::SharedMemoryHandle right = shared.server.put("features");
       v1::SharedMemoryHandle missing = right, shorter = right, late = right;
       missing.set_name("monopath-1");
       shorter.set_length_bytes(7);
       late.set_generation(9);
       const std::vector<std::vector<Response>> scripts = {
           {handle(1, missing)}, {handle(1, shorter)}, {handle(1, late)}, {handle(1, right), handle(1, right)},
           {chunk(1, 0, "a"), handle(1, right)}, {handle(1, right), chunk(1, 0, "a")}};
       for (const std::vector<Response>& script : scripts) {
         FakeServer server({[&](Side& side) {
           shared.open(side);
           side.say(plan(side.expect_item(), 8));
           for (const Response& response : script) side.say(response);
           side.wait_for_cancellation();
           return grpc::Status::OK;
         }});
         Stream<Cpu> stream(server.channel(), config(), shared.options);
         stream.send(item());
         thrown_by<ProtocolError>([&] { stream.next(); });
       }
     }},
    {"a large image goes in shared memory, and that stays as it is until its item has ended",
     [] {
       Shared shared;
       const std::size_t large_bytes = 128 << 10;
       FakeServer server({[&](Side& side) {
         shared.open(side);
         const v1::EncodedImage first = side.hear().item().image().encoded();
         const v1::EncodedImage second = side.hear().item().image().encoded();
         const v1::EncodedImage small = side.hear().item().image().encoded();
         if (!small.has_data()) throw std::runtime_error("Expected a small image inline");
         if (!first.has_shared_memory() || !second.has_shared_memory()) throw std::runtime_error("Expected handles");
         if (second.shared_memory().generation() <= first.shared_memory().generation()) {
           throw std::runtime_error("Expected a larger generation");
         }
         for (const auto& [image, letter] : {std::pair(first, 'a'), std::pair(second, 'b')}) {
           const std::string& name = image.shared_memory().name();
           if (detail::read_segment(shared.folder.path(), name, large_bytes) != std::string(large_bytes, letter)) {
             throw std::runtime_error("Expected the image's bytes");
           }
         }
         complete(side, 1);
         const v1::RawPixels third = side.hear().item().image().pixels();
         if (third.shared_memory().name() != first.shared_memory().name() || third.width_px() != 512) {
           throw std::runtime_error("Expected raw pixels in the memory that was given back");
         }
         for (const std::int32_t id : {2, 3, 4}) complete(side, id);
         return end(side, 4);
       }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       stream.send(image_bytes<Cpu>(std::string(large_bytes, 'a')));
       stream.send(image_bytes<Cpu>(std::string(large_bytes, 'b')));
       stream.send(item(large_bytes - 1));
       CHECK_EQUAL(stream.next()->id, 1);
       stream.send(raw_pixels<Cpu>(std::string(large_bytes, 'c'), 512, 256, v1::PIXEL_FORMAT_GRAY8));
       CHECK_EQUAL(stream.finish().completed_count(), 4u);
     }},
    {"finished features go in shared memory, and come back in it",
     [] {
       Shared shared;
       const std::string sent(300000, 'f');
       FakeServer server({}, [&](ServerSide<Local>& side) {
         side.expect_config();
         side.say(shared.server.ready<Local::Response>(Local::path));
         const std::int32_t id = side.expect_item();
         const v1::SharedMemoryHandle where = side.hear().item_features().shared_memory();
         side.say(plan<Local::Response>(id, static_cast<std::uint32_t>(sent.size()), Local::path));
         Local::Response features;
         features.mutable_features()->set_id(id);
         *features.mutable_features()->mutable_shared_memory() =
             shared.server.put(detail::read_segment(shared.folder.path(), where.name(), where.length_bytes()));
         side.say(features);
         side.say(completion<Local::Response>(id, Local::path));
         side.expect_half_close();
         side.say(summary<Local::Response>(1));
         return grpc::Status::OK;
       });
       Stream<Local> stream(server.channel(), preset_config<Local>("kimi-k3", v1::DATA_TYPE_UINT8), shared.options);
       LocalFeaturesItem finished;
       finished.features = sent;
       stream.send(std::move(finished));
       const std::optional<Result<Local>> result = stream.next();
       CHECK(text(result->features) == sent);
       stream.finish();
     }},
    {"an image that the directory has no room for goes inline",
     [] {
       Shared shared;
       FakeServer server({[&](Side& side) {
         shared.open(side);
         if (!side.hear().item().image().encoded().has_data()) throw std::runtime_error("Expected an image inline");
         complete(side, 1);
         return end(side, 1);
       }});
       Stream<Cpu> stream(server.channel(), config(), shared.options);
       std::filesystem::remove_all(shared.folder.path());
       stream.send(item(1 << 20));
       CHECK(stream.next()->ok());
       stream.finish();
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
