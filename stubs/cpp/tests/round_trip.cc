// Images there and features back, and those features there and back again: a stream of each kind, for end_to_end.py.
//
//   round_trip ADDRESS TOKEN_FILE DIRECTORY OUT IMAGE...
//
// Every image is sent twice. Writes the features of item ID as OUT/ID.deferred and OUT/ID.local, and a line for each
// result. DIRECTORY is that of shared memory, or "inline".

#include <monopath/shared_memory.h>
#include <monopath/stream.h>
#include <monopath/token.h>

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

using monopath::DeferredCpu;
using monopath::Local;

constexpr monopath::v1::DataType kDataType = monopath::v1::DATA_TYPE_FLOAT32;

std::string hexadecimal(const std::string& bytes) {
  std::ostringstream text;
  for (const char byte : bytes) text << std::hex << std::setw(2) << std::setfill('0') << (byte & 0xff);
  return text.str();
}

// One item of each source, in its order.
template <typename Path, typename Source, typename Make>
auto source_of(Source& items, Make make) {
  return [&items, make, at = std::size_t{0}]() mutable -> std::optional<typename Path::Item> {
    if (at == items.size()) return std::nullopt;
    return make(items[at++]);
  };
}

template <typename Path, typename NextItem>
std::vector<monopath::Result<Path>> stream_all(const std::shared_ptr<grpc::Channel>& channel,
                                               const monopath::StreamOptions& options, NextItem next_item,
                                               const std::string& name, const std::filesystem::path& out) {
  std::vector<monopath::Result<Path>> results;
  monopath::Stream<Path> stream(
      channel, monopath::preset_config<Path>("kimi-k3", kDataType, monopath::v1::RESULT_ORDER_AS_SENT), options);
  const auto take = [&](monopath::Result<Path> result) {
    if (!result.ok()) {
      std::cout << name << ' ' << result.id << ' ' << monopath::reason_name(result.error->reason()) << '\n';
      return;
    }
    std::cout << name << ' ' << result.id << ' ' << hexadecimal(result.completion->provenance().content_sha256())
              << '\n';
    std::ofstream file(out / (std::to_string(result.id) + "." + name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(result.features.data()),
               static_cast<std::streamsize>(result.features.size_bytes()));
    results.push_back(std::move(result));
  };
  const monopath::v1::Summary summary = stream.map(next_item, take);
  std::cout << name << " fallback_count " << summary.fallback_count() << '\n';
  return results;
}

void round_trip(int argc, char** argv) {
  const std::shared_ptr<grpc::Channel> channel = monopath::local_channel(argv[1], monopath::Token::of_file(argv[2]));
  monopath::StreamOptions options;
  if (std::string(argv[3]) != "inline") options.transport = std::make_shared<monopath::SharedMemory>(argv[3]);
  const std::filesystem::path out = argv[4];
  std::vector<std::string> images;
  for (int at = 5; at < argc; ++at) images.insert(images.end(), 2, argv[at]);

  const std::vector<monopath::Result<DeferredCpu>> made = stream_all<DeferredCpu>(
      channel, options, source_of<DeferredCpu>(images, monopath::image_file<DeferredCpu>), "deferred", out);
  // The stream is over; its features are there still.
  const auto announce = [](const monopath::Result<DeferredCpu>& result) {
    const auto* bytes = reinterpret_cast<const char*>(result.features.data());
    monopath::LocalFeaturesItem item = monopath::local_features(
        *result.plan, std::string(bytes, result.features.size_bytes()), result.label);
    item.announcement.set_content_sha256(result.completion->provenance().content_sha256());
    return item;
  };
  stream_all<Local>(channel, options, source_of<Local>(made, announce), "local", out);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::cerr << "usage: " << argv[0] << " ADDRESS TOKEN_FILE DIRECTORY OUT IMAGE...\n";
    return 2;
  }
  try {
    round_trip(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
