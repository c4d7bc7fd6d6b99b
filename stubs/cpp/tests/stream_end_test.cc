// Streams that come to another end: refused, broken, dropped, cancelled, lost.

#include <future>
#include <thread>

#include "check.h"
#include "scripts.h"

namespace monopath::tests {
namespace {

const std::vector<Test> kTests = {
    {"a refused config names its fields",
     [] {
       FakeServer server({[](Side& side) {
         side.expect_config();
         side.say(failure(v1::STREAM_ERROR_REASON_CONFIG_INVALID, "wrong"));
         side.expect_half_close();
         return config_refused("wrong", "processor.preset.name");
       }});
       const StreamError error = thrown_by<StreamError>([&] { Stream<Cpu>(server.channel(), config()); });
       CHECK_EQUAL(code_name(error.code()), "INVALID_ARGUMENT");
       CHECK_EQUAL(error.reason(), "CONFIG_INVALID");
       CHECK_EQUAL(error.message(), "wrong");
       CHECK_EQUAL(error.violations().size(), 1u);
       CHECK_EQUAL(error.violations()[0].field(), "processor.preset.name");
     }},
    {"credentials that the server does not take end the stream at its opening, and are not tried again",
     [] {
       FakeServer server({[](Side& side) {
                            open(side);
                            side.expect_item();
                            side.say(goaway());
                            complete(side, 1);
                            return end(side, 1);
                          },
                          [](Side& side) {
                            side.expect_config();
                            return status_with_reason(grpc::StatusCode::UNAUTHENTICATED, "Expected a known token",
                                                      "CREDENTIALS_INVALID");
                          }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       stream.next();
       const StreamError error = thrown_by<StreamError>([&] { stream.send(item()); });
       CHECK_EQUAL(code_name(error.code()), "UNAUTHENTICATED");
       CHECK_EQUAL(error.reason(), "CREDENTIALS_INVALID");
       CHECK_EQUAL(server.stream_count(), 2);
     }},
    {"a transport that only the config says is refused before anything is sent",
     [] {
       FakeServer server({[](Side& side) { return end(side, 0); }});
       Cpu::Config shared = config();
       shared.mutable_output()->mutable_shared_memory();
       thrown_by<std::invalid_argument>([&] { Stream<Cpu>(server.channel(), shared); });
       CHECK_EQUAL(server.stream_count(), 0);
     }},
    {"a failure ends the stream for all that is unfinished, and stays",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         complete(side, side.expect_item());
         side.say(failure(v1::STREAM_ERROR_REASON_ITEM_ID_INVALID, "wrong id"));
         side.wait_for_cancellation();
         return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "wrong id");
       }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       stream.send(item());
       CHECK_EQUAL(stream.next()->id, 1);
       CHECK_EQUAL(thrown_by<StreamError>([&] { stream.next(); }).reason(), "ITEM_ID_INVALID");
       thrown_by<StreamError>([&] { stream.send(item()); });
       thrown_by<StreamError>([&] { stream.finish(); });
     }},
    {"a server that breaks the grammar is not believed any more",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         complete(side, side.expect_item() + 1);
         return end(side, 1);
       }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       thrown_by<ProtocolError>([&] { stream.next(); });
       thrown_by<ProtocolError>([&] { stream.next(); });
     }},
    {"a stream that ends before the client half-closes is no good end",
     [] {
       FakeServer server({[](Side& side) {
         open(side);
         complete(side, side.expect_item());
         side.say(summary(1));
         return grpc::Status::OK;
       }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       CHECK(stream.next()->ok());
       thrown_by<ProtocolError>([&] {
         for (;;) {
           stream.send(item());
           stream.next();
         }
       });
     }},
    {"a new stream with another config is not used",
     [] {
       FakeServer server({[](Side& side) {
                            open(side);
                            side.expect_item();
                            side.say(goaway());
                            complete(side, 1);
                            return end(side, 1);
                          },
                          [](Side& side) {
                            side.expect_config();
                            Response other = ready();
                            other.mutable_ready()->set_config_sha256("other");
                            side.say(other);
                            return end(side, 0);
                          }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       stream.next();
       thrown_by<StreamMoved>([&] { stream.send(item()); });
       thrown_by<StreamMoved>([&] { stream.next(); });
     }},
    {"a dropped stream is cancelled at the server, with items in flight and responses unread",
     [] {
       std::promise<void> planned;
       std::promise<bool> cancelled;
       FakeServer server({[&](Side& side) {
         open(side);
         side.say(plan(side.expect_item(), 5));
         planned.set_value();
         cancelled.set_value(side.wait_for_cancellation());
         return grpc::Status::OK;
       }});
       {
         Stream<Cpu> stream(server.channel(), config());
         stream.send(item());
         planned.get_future().wait();
         stream.send(item(20 << 20));
       }
       CHECK(cancelled.get_future().get());
     }},
    {"cancel wakes whoever waits for a result",
     [] {
       std::promise<void> waiting;
       FakeServer server({[&](Side& side) {
         open(side);
         side.expect_item();
         waiting.set_value();
         side.wait_for_cancellation();
         return grpc::Status::OK;
       }});
       Stream<Cpu> stream(server.channel(), config());
       stream.send(item());
       std::thread canceller([&] {
         waiting.get_future().wait();
         stream.cancel();
       });
       const StreamError error = thrown_by<StreamError>([&] { stream.next(); });
       canceller.join();
       CHECK_EQUAL(code_name(error.code()), "CANCELLED");
     }},
    {"a stream ends with its time",
     [] {
       FakeServer server({[](Side& side) {
         side.expect_config();
         side.wait_for_cancellation();
         return grpc::Status::OK;
       }});
       StreamOptions options;
       options.timeout = std::chrono::milliseconds(50);
       const StreamError error = thrown_by<StreamError>([&] { Stream<Cpu>(server.channel(), config(), options); });
       CHECK_EQUAL(code_name(error.code()), "DEADLINE_EXCEEDED");
     }},
    {"a server that is not there is UNAVAILABLE",
     [] {
       FakeServer server({[](Side& side) { return end(side, 0); }});
       server.stop();
       const StreamError error = thrown_by<StreamError>([&] { Stream<Cpu>(server.channel(), config()); });
       CHECK_EQUAL(code_name(error.code()), "UNAVAILABLE");
       CHECK_EQUAL(error.reason(), "");
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
