// Has a server turn one image into features, and writes those to a file.
//
//   preprocess ADDRESS PRESET IMAGE OUT        e.g. preprocess 127.0.0.1:50051 kimi-k3 photograph.jpg features.bin
//
// OUT gets the features as float32, little-endian, row-major. Exit codes are those of `monopath preprocess`: 0 done;
// 1 the image failed; 2 wrong arguments or files, or the server refused them; 3 no server answers, or it was lost.

#include <monopath/stream.h>

#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

namespace {

enum ExitCode { kDone = 0, kImageFailed = 1, kRefused = 2, kServerLost = 3 };

using Path = monopath::DeferredCpu;

int preprocess(const std::string& address, const std::string& preset, const std::string& image,
               const std::string& out) {
  Path::Item item = monopath::image_file<Path>(image);
  monopath::Stream<Path> stream(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()),
                                monopath::preset_config<Path>(preset, monopath::v1::DATA_TYPE_FLOAT32));
  stream.send(std::move(item));
  const std::optional<monopath::Result<Path>> result = stream.next();
  stream.finish();
  if (!result->ok()) {
    std::cerr << image << ": " << monopath::reason_name(result->error->reason()) << ": " << result->error->message()
              << '\n';
    return kImageFailed;
  }

  std::ofstream file(out, std::ios::binary);
  file.write(reinterpret_cast<const char*>(result->features.data()),
             static_cast<std::streamsize>(result->features.size_bytes()));
  file.close();
  if (!file) {
    std::cerr << out << ": Expected a file that can be written, got none\n";
    return kRefused;
  }
  if (const monopath::v1::GridThw* grid = monopath::patch_grid(*result->plan)) {
    std::cout << "grid_thw " << grid->t() << ' ' << grid->h() << ' ' << grid->w() << '\n';
  }
  std::cout << "token_count " << result->plan->token_count() << '\n'
            << "size_bytes " << result->features.size_bytes() << '\n';
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: " << argv[0] << " ADDRESS PRESET IMAGE OUT\n";
    return kRefused;
  }
  try {
    return preprocess(argv[1], argv[2], argv[3], argv[4]);
  } catch (const monopath::StreamError& error) {
    std::cerr << error.what() << '\n';
    return error.code() == grpc::StatusCode::UNAVAILABLE ? kServerLost : kRefused;
  } catch (const std::system_error& error) {
    std::cerr << error.what() << '\n';
    return kRefused;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return kServerLost;
  }
}
