// A client's bearer token, as a text or from a file, and the channels that carry it.
#ifndef MONOPATH_TOKEN_H_
#define MONOPATH_TOKEN_H_

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace monopath {

// A token. One in a file is read again for each call, so that it can be replaced. For any thread.
class Token {
 public:
  // Throws std::invalid_argument for what is no token.
  static std::shared_ptr<Token> of_text(const std::string& text) {
    return std::shared_ptr<Token>(new Token(checked(text, "the token"), std::nullopt));
  }

  // The first line of a file that is neither empty nor a comment ('#'). Throws std::system_error where the file can not
  // be read, std::invalid_argument where that line is no token.
  static std::shared_ptr<Token> of_file(const std::filesystem::path& file) {
    return std::shared_ptr<Token>(new Token(read(file), file));
  }

  // The token of now; while its file can not be read, that of before.
  std::string latest() {
    const std::lock_guard lock(mutex_);
    if (file_) {
      try {
        value_ = read(*file_);
      } catch (const std::system_error&) {
      } catch (const std::invalid_argument&) {
      }
    }
    return value_;
  }

 private:
  Token(std::string value, std::optional<std::filesystem::path> file)
      : file_(std::move(file)), value_(std::move(value)) {}

  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file);
    if (!in) throw std::system_error(errno, std::generic_category(), file.string());
    std::string first;
    for (std::string line; first.empty() && std::getline(in, line);) {
      const std::string blanks = " \t\r\v\f";
      const std::size_t begin = line.find_first_not_of(blanks);
      if (begin == std::string::npos || line[begin] == '#') continue;
      first = line.substr(begin, line.find_last_not_of(blanks) + 1 - begin);
    }
    return checked(first, "the first line of " + file.string());
  }

  // The text must not show what may be a secret.
  static std::string checked(const std::string& token, const std::string& where) {
    const std::size_t last = token.find_last_not_of('=');
    const char* const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/";
    if (last != std::string::npos && token.find_first_not_of(letters) > last) return token;
    throw std::invalid_argument("Expected " + where + " to be letters, digits and -._~+/ only, got something else");
  }

  const std::optional<std::filesystem::path> file_;
  std::mutex mutex_;
  std::string value_;
};

namespace detail {

class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenPlugin(std::shared_ptr<Token> token) : token_(std::move(token)) {}

  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->emplace("authorization", "Bearer " + token_->latest());
    return grpc::Status::OK;
  }

  const char* GetType() const override { return "monopath token"; }

 private:
  std::shared_ptr<Token> token_;
};

}  // namespace detail

// Gives every call of a channel the token: `grpc::CompositeChannelCredentials(grpc::SslCredentials({}),
// token_credentials(token))`. gRPC itself refuses to send it in plaintext.
inline std::shared_ptr<grpc::CallCredentials> token_credentials(std::shared_ptr<Token> token) {
  return grpc::MetadataCredentialsFromPlugin(std::make_unique<detail::TokenPlugin>(std::move(token)));
}

// A channel in plaintext to a server of this host, at a loopback address or a unix socket, whose calls carry the token.
// gRPC does not let it connect to anybody else.
inline std::shared_ptr<grpc::Channel> local_channel(const std::string& target, std::shared_ptr<Token> token) {
  const grpc_local_connect_type type = target.rfind("unix", 0) == 0 ? UDS : LOCAL_TCP;
  grpc::ChannelArguments arguments;
  // A proxy from the environment would read it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(
      target,
      grpc::CompositeChannelCredentials(
          grpc::experimental::LocalCredentials(type),
          grpc::experimental::MetadataCredentialsFromPlugin(std::make_unique<detail::TokenPlugin>(std::move(token)),
                                                            GRPC_SECURITY_NONE)),
      arguments);
}

}  // namespace monopath

#endif  // MONOPATH_TOKEN_H_
