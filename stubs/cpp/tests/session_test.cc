// The grammar, the limits and the features, without a server.

#include "check.h"
#include "messages.h"

namespace monopath::tests {
namespace {

using Session = detail::Session<DeferredCpu>;

// A session in which `ready` came and items 1 and 2 were sent.
struct Opened {
  explicit Opened(v1::ResultOrder order = v1::RESULT_ORDER_AS_COMPLETED, std::int32_t item_count = 2)
      : session(v1::DATA_TYPE_UINT8, order, results, nullptr) {
    session.receive(ready());
    for (std::int32_t id = 1; id <= item_count; ++id) session.begin(id, "item " + std::to_string(id), 10);
  }

  void complete(std::int32_t id) {
    session.receive(plan(id, 2));
    session.receive(chunk(id, 0, "ab"));
    session.receive(completion(id));
  }

  // Expects that `response` breaks a rule.
  void refuses(Response response) {
    thrown_by<ProtocolError>([&] { session.receive(std::move(response)); });
  }

  std::deque<Result<DeferredCpu>> results;
  Session session;
};

std::string text(const Features& features) {
  return {reinterpret_cast<const char*>(features.data()), features.size_bytes()};
}

const std::vector<Test> kTests = {
    {"chunks of interleaved items are joined, each in its own buffer",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 4));
       stream.session.receive(plan(2, 3));
       stream.session.receive(chunk(1, 0, "ab"));
       stream.session.receive(chunk(2, 0, "xyz"));
       stream.session.receive(chunk(1, 2, "cd"));
       stream.session.receive(completion(2));
       stream.session.receive(completion(1));
       stream.session.receive(summary(2));
       stream.session.check_end();
       CHECK_EQUAL(stream.results.size(), 2u);
       CHECK_EQUAL(stream.results[0].id, 2);
       CHECK_EQUAL(text(stream.results[0].features), "xyz");
       CHECK_EQUAL(stream.results[1].label, "item 1");
       CHECK_EQUAL(text(stream.results[1].features), "abcd");
       CHECK_EQUAL(stream.results[1].plan->token_count(), 7u);
     }},
    {"an item's error is its result, and its neighbour goes on",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 4));
       stream.session.receive(item_error(1, v1::ITEM_ERROR_REASON_IMAGE_DAMAGED));
       stream.complete(2);
       CHECK(!stream.results[0].ok());
       CHECK_EQUAL(reason_name(stream.results[0].error->reason()), "IMAGE_DAMAGED");
       CHECK(stream.results[1].ok());
     }},
    {"nothing but ready comes first",
     [] {
       std::deque<Result<DeferredCpu>> results;
       for (const Response& early : {plan(1, 2), chunk(1, 0, "a"), completion(1), summary(0)}) {
         Session session(v1::DATA_TYPE_UINT8, v1::RESULT_ORDER_AS_COMPLETED, results, nullptr);
         thrown_by<ProtocolError>([&] { session.receive(early); });
       }
     }},
    {"ready comes once, and of the stream's own path",
     [] {
       Opened().refuses(ready());
       std::deque<Result<DeferredCpu>> results;
       Session session(v1::DATA_TYPE_UINT8, v1::RESULT_ORDER_AS_COMPLETED, results, nullptr);
       thrown_by<ProtocolError>(
           [&] { session.receive(ready(default_limits(), v1::PREPROCESSING_PATH_DEFERRED_CUDA)); });
     }},
    {"features need a plan, and so does a completion",
     [] {
       Opened().refuses(chunk(1, 0, "a"));
       Opened().refuses(completion(1));
     }},
    {"an item has one plan, and none of another path",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 2));
       stream.refuses(plan(1, 2));
       stream.refuses(plan(2, 2, v1::PREPROCESSING_PATH_LOCAL));
     }},
    {"nothing comes of an item that was never sent, or has ended",
     [] {
       Opened stream;
       stream.refuses(plan(3, 2));
       stream.complete(1);
       stream.refuses(item_error(1, v1::ITEM_ERROR_REASON_INTERNAL));
     }},
    {"chunks come without gap, overlap or excess, and none is missing",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 4));
       stream.refuses(chunk(1, 1, "a"));
       stream.session.receive(chunk(1, 0, "ab"));
       stream.refuses(chunk(1, 0, "ab"));
       stream.refuses(chunk(1, 2, "cde"));
       stream.refuses(chunk(1, 2, ""));
       stream.refuses(completion(1));
     }},
    {"features that are not inline are refused",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 4));
       Response handle;
       handle.mutable_features()->set_id(1);
       handle.mutable_features()->mutable_shared_memory()->set_name("monopath-1");
       stream.refuses(handle);
     }},
    {"a plan agrees with itself, the stream's element type and its limit",
     [] {
       Response wrong_size = plan(1, 4);
       wrong_size.mutable_plan()->mutable_plan()->mutable_features()->set_size_bytes(5);
       Opened().refuses(wrong_size);
       Response wrong_type = plan(1, 4);
       wrong_type.mutable_plan()->mutable_plan()->mutable_features()->set_data_type(v1::DATA_TYPE_FLOAT32);
       Opened().refuses(wrong_type);
       Response negative = plan(1, 4);
       negative.mutable_plan()->mutable_plan()->mutable_features()->set_shape(0, -1);
       negative.mutable_plan()->mutable_plan()->mutable_features()->set_shape(1, -4);
       Opened().refuses(negative);
       Response overflowing = plan(1, 4);
       overflowing.mutable_plan()->mutable_plan()->mutable_features()->set_shape(0, (std::int64_t{1} << 62) + 1);
       Opened().refuses(overflowing);
       Opened().refuses(plan(1, (64 << 20) + 1));
     }},
    {"features are of the stream's config and path",
     [] {
       Opened stream;
       stream.session.receive(plan(1, 1));
       stream.session.receive(chunk(1, 0, "a"));
       Response other = completion(1);
       other.mutable_completion()->mutable_provenance()->set_config_sha256("other");
       stream.refuses(other);
       stream.refuses(completion(1, v1::PREPROCESSING_PATH_DEFERRED_CUDA));
     }},
    {"items that end as sent keep their order",
     [] {
       Opened stream(v1::RESULT_ORDER_AS_SENT);
       stream.refuses(item_error(2, v1::ITEM_ERROR_REASON_INTERNAL));
       stream.complete(1);
       stream.complete(2);
     }},
    {"an item that is not sent has its error in its turn",
     [] {
       for (const v1::ResultOrder order : {v1::RESULT_ORDER_AS_SENT, v1::RESULT_ORDER_AS_COMPLETED}) {
         const bool as_sent = order == v1::RESULT_ORDER_AS_SENT;
         Opened stream(order, 1);
         stream.session.refuse(2, "too large", v1::ItemError());
         CHECK_EQUAL(stream.results.size(), as_sent ? 0u : 1u);
         stream.complete(1);
         CHECK_EQUAL(stream.results.size(), 2u);
         CHECK_EQUAL(stream.results[as_sent ? 1 : 0].label, "too large");
         stream.session.receive(summary(1));
       }
     }},
    {"a summary comes when all have ended, counts them, and is the last",
     [] {
       Opened stream;
       stream.complete(1);
       stream.refuses(summary(2));
       stream.complete(2);
       stream.refuses(summary(1));
       stream.refuses(summary(1, 2));
       thrown_by<ProtocolError>([&] { stream.session.check_end(); });
       stream.session.receive(summary(2));
       stream.session.check_end();
       stream.refuses(goaway());
     }},
    {"a plan has its patch grid, or says what rows are instead",
     [] {
       v1::ImagePlan plan;
       plan.mutable_grid_thw()->set_t(1);
       plan.mutable_grid_thw()->set_h(4);
       plan.mutable_grid_thw()->set_w(6);
       CHECK(patch_grid(plan) == &plan.grid_thw());
       plan.mutable_grid_thw()->Clear();
       plan.mutable_tile_grid()->set_columns(3);
       CHECK(patch_grid(plan) == nullptr);
     }},
    {"a group is read as if each of its responses had come alone",
     [] {
       Opened stream(v1::RESULT_ORDER_AS_SENT);
       Response newer;
       CHECK(newer.ParseFromString(std::string("\xfa\x3e\x01\x00", 4)));  // Field 1007, which this release has not.
       stream.session.receive(group({plan(1, 2), newer, chunk(1, 0, "ab"), completion(1), plan(2, 3)}));
       CHECK_EQUAL(stream.results.size(), 1u);
       stream.session.receive(group({chunk(2, 0, "xyz"), completion(2), summary(2)}));
       stream.session.check_end();
       CHECK_EQUAL(text(stream.results[0].features), "ab");
       CHECK_EQUAL(text(stream.results[1].features), "xyz");
     }},
    {"a group holds the grammar, and has no group in it",
     [] {
       Opened().refuses(group({plan(1, 2), plan(1, 2)}));
       Opened().refuses(group({plan(1, 2), group({chunk(1, 0, "ab"), completion(1)})}));
     }},
    {"finished features without a patch grid are announced with an empty one, and with their tiles",
     [] {
       LocalFeaturesItem item;
       item.announcement.mutable_tile_grid()->set_columns(2);
       item.features = "ab";
       std::vector<v1::StreamLocalRequest> requests;
       const auto keep = [&](v1::StreamLocalRequest request) { requests.push_back(std::move(request)); };
       Local::write_item(item, 1, 0, nullptr, keep);
       CHECK_EQUAL(requests.size(), 2u);
       CHECK(requests[0].item().has_grid_thw());
       CHECK_EQUAL(requests[0].item().grid_thw().t(), 0u);
       CHECK_EQUAL(requests[0].item().tile_grid().columns(), 2u);
       item.announcement.mutable_grid_thw()->set_t(1);
       Local::write_item(item, 1, 0, nullptr, keep);
       CHECK_EQUAL(requests[2].item().grid_thw().t(), 1u);
     }},
    {"what only a newer server says is skipped",
     [] {
       Opened stream;
       Response newer;
       CHECK(newer.ParseFromString(std::string("\xfa\x3e\x01\x00", 4)));  // Field 1007, which this release has not.
       stream.session.receive(newer);
       stream.complete(1);
       CHECK_EQUAL(stream.results.size(), 1u);
     }},
    {"there is room up to the server's limits, and always for one item",
     [] {
       std::deque<Result<DeferredCpu>> results;
       v1::StreamLimits limits = default_limits();
       limits.set_max_unfinished_items(2);
       limits.set_max_unfinished_bytes(100);
       Session session(v1::DATA_TYPE_UINT8, v1::RESULT_ORDER_AS_COMPLETED, results, nullptr);
       session.receive(ready(limits));
       CHECK(session.has_room(101));
       session.begin(1, "", 60);
       CHECK(session.has_room(40));
       CHECK(!session.has_room(41));
       session.begin(2, "", 1);
       CHECK(!session.has_room(1));
       session.receive(item_error(1, v1::ITEM_ERROR_REASON_INTERNAL));
       CHECK(session.has_room(99));
       CHECK(!session.has_room(100));
     }},
    {"a bfloat16 is the upper half of a float",
     [] {
       CHECK_EQUAL(bfloat16_to_float(0x3f80), 1.0f);
       CHECK_EQUAL(bfloat16_to_float(0xc0a0), -5.0f);
       CHECK_EQUAL(bfloat16_to_float(0x0001), 9.183549615799121e-41f);
       CHECK(bfloat16_to_float(0x7f81) != bfloat16_to_float(0x7f81));
     }},
    {"elements are given as what they are only",
     [] {
       v1::TensorSpec spec;
       spec.set_data_type(v1::DATA_TYPE_BFLOAT16);
       spec.add_shape(2);
       spec.set_size_bytes(4);
       FeatureAssembly assembly(spec, v1::DATA_TYPE_BFLOAT16, 4);
       v1::FeatureChunk all;
       all.set_data(std::string("\x80\x3f\xa0\xc0", 4));
       assembly.add(all);
       const Features features = assembly.finish();
       CHECK_EQUAL(features.element_count(), 2u);
       CHECK_EQUAL(bfloat16_to_float(features.elements<std::uint16_t>()[1]), -5.0f);
       thrown_by<std::invalid_argument>([&] { features.elements<float>(); });
       thrown_by<std::invalid_argument>([&] { features.elements<std::uint8_t>(); });
     }},
    {"a handle leads to whole elements",
     [] {
       v1::TensorSpec spec;
       spec.set_data_type(v1::DATA_TYPE_FLOAT32);
       spec.add_shape(1);
       spec.set_size_bytes(4);
       FeatureAssembly assembly(spec, v1::DATA_TYPE_FLOAT32, 4);
       const auto memory = std::make_shared<float>(1.5f);
       const auto* const bytes = reinterpret_cast<const std::byte*>(memory.get());
       const auto map = [&] { return std::shared_ptr<const std::byte>(memory, bytes); };
       v1::SharedMemoryHandle handle;
       handle.set_length_bytes(4);
       handle.set_offset_bytes(4098);
       thrown_by<ProtocolError>([&] { assembly.place(handle, map); });
       handle.set_offset_bytes(4096);
       assembly.place(handle, map);
       Features features = assembly.finish();
       CHECK_EQUAL(*features.elements<float>(), 1.5f);
       CHECK_EQUAL(memory.use_count(), 2);
       const Features moved = std::move(features);
       CHECK(features.data() == nullptr && features.size_bytes() == 0 && features.element_count() == 0);
     }},
    {"a status without details, or with damaged ones, is still an error",
     [] {
       const StreamError bare = error_of(grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost"));
       CHECK_EQUAL(code_name(bare.code()), "UNAVAILABLE");
       CHECK(bare.reason().empty() && bare.violations().empty() && !bare.retry_after());
       CHECK_EQUAL(error_of(grpc::Status(grpc::StatusCode::INTERNAL, "", "\xff\xff")).reason(), "");
     }},
    {"a reason of another domain is not the contract's",
     [] {
       details::ErrorInfo info;
       info.set_reason("CONFIG_INVALID");
       info.set_domain("example.com");
       details::Status rich;
       rich.add_details()->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
       rich.mutable_details(0)->set_value(info.SerializeAsString());
       CHECK_EQUAL(error_of(grpc::Status(grpc::StatusCode::INTERNAL, "", rich.SerializeAsString())).reason(), "");
     }},
    {"a failure speaks where the status says nothing",
     [] {
       const v1::StreamFailure told = failure(v1::STREAM_ERROR_REASON_DRAINING, "stopping").failure();
       const StreamError at_ok = error_of(grpc::Status::OK, told);
       CHECK_EQUAL(code_name(at_ok.code()), "UNAVAILABLE");
       CHECK_EQUAL(at_ok.reason(), "DRAINING");
       const StreamError lost = error_of(grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost"), told);
       CHECK_EQUAL(lost.reason(), "DRAINING");
       CHECK_EQUAL(lost.message(), "stopping");
     }},
};

}  // namespace
}  // namespace monopath::tests

int main() { return monopath::tests::run_all(monopath::tests::kTests); }
