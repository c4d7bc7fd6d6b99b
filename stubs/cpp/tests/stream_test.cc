// Streams that come to a good end, over a real connection, with a server in this process that plays a script.

#include <atomic>
#include <string>

#include "check.h"
#include "scripts.h"

namespace monopath::tests {
namespace {

const std::vector<Test> kTests = {
    {"map takes every result and returns the summary",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         for (int count = 0; count < 3; ++count) complete(side, side.expect_item());
         return end(side, 3);
       }});
       int plan_count = 0;
       StreamOptions options;
       options.on_plan = [&](std::int32_t, const v1::ImagePlan&) { ++plan_count; };
       Stream<Cpu> stream(server.channel(), config(), options);
       CHECK_EQUAL(stream.ready().config_sha256(), kDigest);
       std::string ids;
       const v1::Summary total = stream.map(source_of(3), [&](Result<Cpu> result) {
         CHECK(result.ok());
         ids += std::to_string(result.id);
       });
       CHECK_EQUAL(ids, "123");
       CHECK_EQUAL(plan_count, 3);
       CHECK_EQUAL(total.completed_count(), 3u);
     }},
    {"a stream that is written and not read does not get stuck on large results",
     [] {
       // 20 x 4 MiB each way is more than all buffers between the two hold. The server reads an item only when the last
       // one's features are written.
       const std::string large(4 << 20, 'f');
       FakeServer server({[&](Side& side) {
         open(side);
         for (int count = 0; count < 20; ++count) complete(side, side.expect_item(), large);
         return end(side, 20);
       }});
       Stream<Cpu> stream(server.channel(), config());
       for (int count = 0; count < 20; ++count) stream.send(item(large.size()));
       int result_count = 0;
       while (const std::optional<Result<Cpu>> result = stream.next()) {
         CHECK_EQUAL(result->features.size_bytes(), large.size());
         ++result_count;
       }
       CHECK_EQUAL(result_count, 20);
       stream.finish();
     }},
    {"an item waits until the server has room",
     [] {
       std::atomic<bool> one_ended = false;
       FakeServer server({[&](Side& side) {
         v1::StreamLimits limits = default_limits();
         limits.set_max_unfinished_items(2);
         open(side, limits);
         side.expect_item();
         side.expect_item();
         one_ended = true;
         complete(side, 2);
         complete(side, 1);
         complete(side, side.expect_item());
         return end(side, 3);
       }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       stream.send(item());
       stream.send(item());
       CHECK(one_ended);
       CHECK_EQUAL(stream.next()->id, 2);
       CHECK_EQUAL(stream.finish().completed_count(), 3u);
       CHECK_EQUAL(stream.next()->id, 1);
       CHECK_EQUAL(stream.next()->id, 3);
       CHECK(!stream.next());
       thrown_by<std::logic_error>([&] { stream.send(item()); });
     }},
    {"a bad item is a value, and its neighbours are done",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         side.say(item_error(side.expect_item(), v1::ITEM_ERROR_REASON_IMAGE_DAMAGED));
         complete(side, side.expect_item());
         return end(side, 1, 1);
       }});
       Stream<Cpu> stream(server.channel(), config());
       std::string seen;
       stream.map(source_of(2), [&](Result<Cpu> result) {
         CHECK_EQUAL(result.label, "a label");
         seen += result.ok() ? "done " : reason_name(result.error->reason()) + " ";
       });
       CHECK_EQUAL(seen, "IMAGE_DAMAGED done ");
     }},
    {"after goaway the rest goes to a new stream",
     [] {
       FakeServer server({[](Side& side) {
                            open(side);
                            side.expect_item();
                            side.say(goaway());
                            complete(side, 1);
                            return end(side, 1);
                          },
                          [](Side& side) {
                            open(side);
                            for (int count = 0; count < 2; ++count) complete(side, side.expect_item());
                            return end(side, 2);
                          }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       CHECK_EQUAL(stream.next()->id, 1);
       std::string ids;
       const v1::Summary total =
           stream.map(source_of(2), [&](Result<Cpu> result) { ids += std::to_string(result.id); });
       CHECK_EQUAL(ids, "23");
       CHECK_EQUAL(total.accepted_count(), 3u);
       CHECK_EQUAL(server.stream_count(), 2);
     }},
    {"a server that asks to move before it is ready is asked again, and not for ever",
     [] {
       const auto moving = [](Side& side) {
         side.expect_config();
         side.say(goaway());
         side.expect_half_close();
         return grpc::Status::OK;
       };
       FakeServer once({moving, [](Side& side) {
                          open(side);
                          complete(side, side.expect_item());
                          return end(side, 1);
                        }});
       Stream<Cpu> stream(once.channel(), config());
       stream.send(item());
       CHECK_EQUAL(stream.finish().completed_count(), 1u);
       FakeServer always({moving});
       thrown_by<StreamMoved>([&] { Stream<Cpu>(always.channel(), config()); });
       CHECK_EQUAL(always.stream_count(), 3);
     }},
    {"an item that is too large for a request fails alone, in its turn",
     [] {
       FakeServer server({[](Side& side) {
         v1::StreamLimits limits = default_limits();
         limits.set_max_request_bytes(10000);
         open(side, limits);
         if (side.expect_item() != 1 || side.expect_item() != 3) throw std::runtime_error("Expected items 1 and 3");
         complete(side, 1);
         complete(side, 3);
         return end(side, 2);
       }});
       Stream<Cpu> stream(server.channel(), config(v1::RESULT_ORDER_AS_SENT));
       for (const std::size_t size_bytes : {3, 10000, 3}) stream.send(item(size_bytes));
       CHECK(stream.next()->ok());
       const std::optional<Result<Cpu>> refused = stream.next();
       CHECK_EQUAL(refused->id, 2);
       CHECK_EQUAL(reason_name(refused->error->reason()), "IMAGE_BYTES_EXCEEDED");
       CHECK_EQUAL(refused->error->label(), "a label");
       CHECK(stream.next()->ok());
       stream.finish();
     }},
    {"a cancelled item has the end that the server gives it, and one that has ended is not cancelled",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         side.expect_item();
         const Cpu::Request request = side.hear();
         if (request.cancellation().id() != 1) throw std::runtime_error("Expected a cancellation of item 1");
         side.say(item_error(1, v1::ITEM_ERROR_REASON_CANCELLED));
         side.expect_half_close();
         Response done = summary(0, 0);
         done.mutable_summary()->set_accepted_count(1);
         done.mutable_summary()->set_cancelled_count(1);
         side.say(done);
         return grpc::Status::OK;
       }});
       Stream<Cpu> stream(server.channel(), config());
       const std::int32_t id = stream.send(item());
       stream.cancel_item(id);
       CHECK_EQUAL(reason_name(stream.next()->error->reason()), "CANCELLED");
       stream.cancel_item(id);
       CHECK_EQUAL(stream.finish().cancelled_count(), 1u);
     }},
    {"finished features are cut to what a request may hold, and arrive whole",
     [] {
       std::string sent;
       for (int number = 0; number < 100000; ++number) sent += static_cast<char>(number % 251);
       FakeServer server({}, [&](ServerSide<Local>& side) {
         v1::StreamLimits limits = default_limits();
         limits.set_max_request_bytes(20000);
         side.expect_config();
         side.say(ready<Local::Response>(limits, Local::path));
         const std::int32_t id = side.expect_item();
         std::string received;
         while (received.size() < sent.size()) {
           const Local::Request part = side.hear();
           if (part.ByteSizeLong() > 20000) throw std::runtime_error("Expected requests of at most 20000 bytes");
           const v1::FeatureChunk& next = part.item_features().chunk();
           if (next.offset_bytes() != received.size()) throw std::runtime_error("Expected no gap");
           received += next.data();
         }
         const auto size_bytes = static_cast<std::uint32_t>(received.size());
         side.say(plan<Local::Response>(id, size_bytes, Local::path));
         side.say(chunk<Local::Response>(id, 0, received));
         side.say(completion<Local::Response>(id, Local::path));
         side.expect_half_close();
         side.say(summary<Local::Response>(1));
         return grpc::Status::OK;
       });
       Stream<Local> stream(server.channel(), preset_config<Local>("kimi-k3", v1::DATA_TYPE_UINT8));
       LocalFeaturesItem finished;
       finished.features = sent;
       stream.send(std::move(finished));
       const std::optional<Result<Local>> result = stream.next();
       CHECK(result->ok());
       const auto* bytes = reinterpret_cast<const char*>(result->features.data());
       CHECK(std::string(bytes, result->features.size_bytes()) == sent);
       stream.finish();
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
