// A server in this process that does what a test tells it to, stream by stream.
#ifndef MONOPATH_TESTS_FAKE_SERVER_H_
#define MONOPATH_TESTS_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <monopath/stream.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace monopath::tests {

// One stream as its server sees it. What the client does against expectation is thrown, and ends the stream with it.
template <typename Path>
class ServerSide {
 public:
  using Raw = grpc::ServerReaderWriter<typename Path::Response, typename Path::Request>;

  ServerSide(grpc::ServerContext& context, Raw& raw) : context_(context), raw_(raw) {}

  void say(const typename Path::Response& response) {
    if (!raw_.Write(response)) throw std::runtime_error("Expected a client that reads, got none");
  }

  typename Path::Request hear() {
    typename Path::Request request;
    if (!raw_.Read(&request)) throw std::runtime_error("Expected a request, got the half-close");
    return request;
  }

  void expect_config() {
    if (!hear().has_config()) throw std::runtime_error("Expected a config, got another request");
  }

  // Returns the item's id.
  std::int32_t expect_item() {
    const typename Path::Request request = hear();
    if (!request.has_item()) throw std::runtime_error("Expected an item, got " + request.ShortDebugString());
    return request.item().id();
  }

  void expect_half_close() {
    typename Path::Request request;
    if (raw_.Read(&request)) throw std::runtime_error("Expected the half-close, got " + request.ShortDebugString());
  }

  // What the call says of itself under a name; empty where it says nothing.
  std::string metadata(const std::string& name) const {
    const auto found = context_.client_metadata().find(name);
    return found == context_.client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
  }

  // Waits until the client is gone, and returns whether it was by cancellation.
  bool wait_for_cancellation() {
    typename Path::Request request;
    while (raw_.Read(&request)) {
    }
    return context_.IsCancelled();
  }

 private:
  grpc::ServerContext& context_;
  Raw& raw_;
};

class FakeServer final : public v1::PreprocessingService::Service {
 public:
  template <typename Path>
  using Script = std::function<grpc::Status(ServerSide<Path>&)>;

  // Each stream has a script, in the order in which they come; the last one is for all that follow.
  explicit FakeServer(std::vector<Script<DeferredCpu>> scripts, Script<Local> local = nullptr)
      : scripts_(std::move(scripts)), local_(std::move(local)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) throw std::runtime_error("Expected a free port, got none");
    address_ = "127.0.0.1:" + std::to_string(port);
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  ~FakeServer() override { stop(); }

  // Ends what is still open, and waits for it.
  void stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  int stream_count() const { return stream_count_; }

 private:
  grpc::Status StreamDeferredCpu(grpc::ServerContext* context, ServerSide<DeferredCpu>::Raw* raw) override {
    const std::size_t number = static_cast<std::size_t>(stream_count_++);
    return play(number < scripts_.size() ? scripts_[number] : scripts_.back(), *context, *raw);
  }

  grpc::Status StreamLocal(grpc::ServerContext* context, ServerSide<Local>::Raw* raw) override {
    return play(local_, *context, *raw);
  }

  template <typename Path>
  static grpc::Status play(const Script<Path>& script, grpc::ServerContext& context,
                           typename ServerSide<Path>::Raw& raw) {
    try {
      ServerSide<Path> side(context, raw);
      return script(side);
    } catch (const std::exception& error) {
      return {grpc::StatusCode::ABORTED, error.what()};
    }
  }

  std::vector<Script<DeferredCpu>> scripts_;
  Script<Local> local_;
  std::atomic<int> stream_count_{0};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace monopath::tests

#endif  // MONOPATH_TESTS_FAKE_SERVER_H_
