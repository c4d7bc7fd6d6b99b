// Tokens, and that calls carry them.

#include <monopath/token.h>

#include <fstream>
#include <string>

#include "check.h"
#include "folder.h"
#include "scripts.h"

namespace monopath::tests {
namespace {

void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }

// A server whose streams end at once with what the client says of itself.
FakeServer::Script<Cpu> telling() {
  return [](Side& side) {
    side.expect_config();
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, side.metadata("authorization"));
  };
}

std::string told(const std::shared_ptr<grpc::Channel>& channel) {
  return thrown_by<StreamError>([&] { Stream<Cpu>(channel, config()); }).message();
}

const std::vector<Test> kTests = {
    {"a token is letters, digits and a few signs, and what is none is not shown",
     [] {
       CHECK_EQUAL(Token::of_text("aZ09._~+/-==")->latest(), "aZ09._~+/-==");
       for (const std::string text : {"", "=", "a=secret", "secret word", "secret\n", "secr\xc3\xa9t"}) {
         const auto error = thrown_by<std::invalid_argument>([&] { Token::of_text(text); });
         CHECK(std::string(error.what()).find("secr") == std::string::npos);
       }
     }},
    {"a file's token is its first line that says something, read again, and kept while there is none",
     [] {
       Folder folder;
       const std::filesystem::path file = folder.path() / "token";
       thrown_by<std::system_error>([&] { Token::of_file(file); });
       write(file, "# none\n\n");
       thrown_by<std::invalid_argument>([&] { Token::of_file(file); });
       write(file, "# d'\xe9t\xe9\r\n\r\n  first \r\nother\n");
       const std::shared_ptr<Token> token = Token::of_file(file);
       CHECK_EQUAL(token->latest(), "first");
       write(file, "second");
       CHECK_EQUAL(token->latest(), "second");
       write(file, "");
       CHECK_EQUAL(token->latest(), "second");
       std::filesystem::remove(file);
       CHECK_EQUAL(token->latest(), "second");
     }},
    {"each call of a local channel carries the token of its moment",
     [] {
       FakeServer server({telling()});
       Folder folder;
       const std::filesystem::path file = folder.path() / "token";
       write(file, "first");
       const std::shared_ptr<grpc::Channel> channel = local_channel(server.address(), Token::of_file(file));
       CHECK_EQUAL(told(channel), "Bearer first");
       write(file, "second");
       CHECK_EQUAL(told(channel), "Bearer second");
       CHECK_EQUAL(told(server.channel()), "");
     }},
    {"gRPC does not send a token over a channel in plaintext that is not a local one",
     [] {
       FakeServer server({telling()});
       const std::shared_ptr<grpc::CallCredentials> token = token_credentials(Token::of_text("secret"));
       const std::shared_ptr<grpc::Channel> channel = grpc::CreateChannel(
           server.address(), grpc::CompositeChannelCredentials(grpc::InsecureChannelCredentials(), token));
       CHECK(told(channel).find("secret") == std::string::npos);
       CHECK_EQUAL(server.stream_count(), 0);
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
