#include "pare/io/safetensors.h"

#include "io/io_support.h"

namespace pare {
namespace {

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  return raw(uint64_t{header.size()}) + header + data;
}

NamedTensors parse_header(const std::string& header, const std::string& data = "") {
  return parse_safetensors(ByteSource::copy(safetensors_bytes(header, data), "test.safetensors"));
}

void expect_format_error(std::string_view part, const std::string& header, const std::string& data = "") {
  expect_error(ErrorKind::format, part, [&] { parse_header(header, data); });
}

TEST(Safetensors, ReadsTheExampleOfTheFormat) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})";
  const NamedTensors weights = parse_header(header, raw(1.5f) + raw(-2.0f));
  ASSERT_EQ(weights.tensors.size(), 1u);
  EXPECT_EQ(weights.metadata.at("format"), "pt");
  EXPECT_EQ(weights.find("a")->sizes(), at::IntArrayRef({2, 1}));
  EXPECT_EQ(values_of<float>(*weights.find("a")), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(weights.find("b"), nullptr);
}

TEST(Safetensors, RoundTripsEveryDtypeInOrder) {
  NamedTensors weights;
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kBFloat16, at::kHalf,
                          at::kFloat, at::kDouble})
    weights.tensors.emplace_back(c10::toString(type), at::tensor({0, 1, 1}, at::kLong).to(type));
  weights.tensors.emplace_back("strided \u00e9\"", at::arange(6, at::kFloat).reshape({2, 3}).t());
  weights.tensors.emplace_back("empty", at::empty({0, 3}));
  weights.tensors.emplace_back("scalar", at::scalar_tensor(4.5));
  weights.metadata = {{"b", "2"}, {"a", "line\nend"}};
  const auto path = temporary_file("all.safetensors");
  write_safetensors(path, weights);
  const NamedTensors read = read_safetensors(path);
  EXPECT_EQ(read.metadata, weights.metadata);
  ASSERT_EQ(read.tensors.size(), weights.tensors.size());
  for (size_t i = 0; i < read.tensors.size(); ++i) {
    const auto& [name, tensor] = weights.tensors[i];
    EXPECT_EQ(read.tensors[i].first, name);
    EXPECT_EQ(read.tensors[i].second.scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(at::equal(read.tensors[i].second, tensor)) << name;
  }
  const std::string first = text_of_file(path);
  EXPECT_EQ((8 + first[0] + 256 * first[1]) % 8, 0);
  write_safetensors(path, weights);
  EXPECT_EQ(text_of_file(path), first);
  std::filesystem::remove(path);
}

TEST(Safetensors, SharesTheMappingAndOutlivesIt) {
  NamedTensors weights;
  weights.tensors.emplace_back("flags", at::ones({3}, at::kBool));
  weights.tensors.emplace_back("w", at::arange(1000, at::kDouble));
  const auto path = temporary_file("shared.safetensors");
  write_safetensors(path, weights);
  auto source = std::make_unique<ByteSource>(ByteSource::map(path));
  const NamedTensors read = parse_safetensors(*source);
  const auto* memory = static_cast<const std::byte*>(read.find("w")->data_ptr());
  EXPECT_TRUE(memory >= source->bytes.data() && memory < source->bytes.data() + source->bytes.size());
  source.reset();
  std::filesystem::remove(path);
  EXPECT_EQ(read.find("w")->sum().item<double>(), 499500);
}

TEST(Safetensors, CopiesMisalignedTensors) {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const NamedTensors weights = parse_header(header, "\x07" + raw(2.5f));
  EXPECT_EQ(values_of<uint8_t>(*weights.find("a")), std::vector<uint8_t>{7});
  EXPECT_EQ(values_of<float>(*weights.find("b")), std::vector<float>{2.5f});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.find("b")->data_ptr()) % 4, 0u);
}

TEST(Safetensors, RefusesMalformedHeaders) {
  expect_format_error("expected an object, found an array", "[]");
  expect_format_error("not JSON", "{\"a\":");
  expect_format_error("not JSON", "{} {}");
  expect_format_error("not JSON", "{\"\xff\":{}}");
  expect_format_error("'a' twice", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}})");
  expect_format_error("expected dtype, shape and data_offsets", R"({"a":{"dtype":"U8","shape":[0]}})");
  expect_format_error("the key twice", R"({"a":{"dtype":"U8","dtype":"U8"}})");
  expect_format_error("an unknown key", R"({"a":{"type":"U8"}})");
  expect_format_error("an array", R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})");
  expect_format_error("the number -1", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})");
  expect_format_error("the number 1.5", R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})");
  expect_format_error("9223372036854775808", R"({"a":{"dtype":"U8","shape":[9223372036854775808]}})");
  expect_format_error("expected a string for each key", R"({"__metadata__":{"a":1}})");
  expect_format_error("names of at most 65535 bytes, found 70000", "{\"" + std::string(70000, 'a') + "\":{}}");
  expect_format_error(
      "more than 32 numbers",
      R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}})");
  expect_format_error("found an array", R"({"a":)" + std::string(100000, '['));
  expect_format_error("found an object", R"({"a":{"dtype":{)");
  expect_error(ErrorKind::unsupported, "'w' has the dtype 'F8_E4M3'",
               [] { parse_header(R"({"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", "x"); });
}

TEST(Safetensors, RefusesBytesThatDoNotFit) {
  const auto two = [](std::string_view a, std::string_view b) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
                       a, b);
  };
  EXPECT_NO_THROW(parse_header(two("[2,4]", "[0,2]"), "abcd"));
  expect_format_error("'b': expected its bytes to begin at 2, found 1 (an overlap)", two("[0,2]", "[1,3]"), "abc");
  expect_format_error("'b': expected its bytes to begin at 2, found 3 (a gap)", two("[0,2]", "[3,5]"), "abcde");
  expect_format_error("'b': expected data_offsets [begin, end]", two("[0,2]", "[2,9]"), "abcd");
  expect_format_error("found [2, 1]", two("[0,2]", "[2,1]"), "abcd");
  expect_format_error("found [2]", two("[0,2]", "[2]"), "abcd");
  expect_format_error("the tensors take 4 bytes, found 5", two("[0,2]", "[2,4]"), "abcde");
  expect_format_error("'a' needs 2 bytes for its shape, found 3", two("[0,3]", "[3,5]"), "abcde");
  expect_format_error("more than 2^63 bytes",
                      R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})");
  expect_format_error("expected bytes 0 and 1, found 2 at element 1",
                      R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\1\2");
  expect_error(ErrorKind::format, "claims a header of 18446744073709551615 bytes",
               [] { parse_safetensors(ByteSource::copy(raw(~uint64_t{0}) + "{}", "x")); });
}

TEST(Safetensors, SurvivesDamage) {
  const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[1,9]},)"
                             R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})";
  expect_robust(safetensors_bytes(header, "\1" + raw(1.0f) + raw(2.0f)), parse_safetensors);
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const auto path = temporary_file("refused.safetensors");
  const auto write = [&](const std::string& name, const at::Tensor& tensor, int times = 1) {
    NamedTensors weights;
    for (int i = 0; i < times; ++i) weights.tensors.emplace_back(name, tensor);
    write_safetensors(path, weights);
  };
  expect_error(ErrorKind::unsupported, "ComplexFloat", [&] { write("c", at::zeros({1}, at::kComplexFloat)); });
  expect_error(ErrorKind::failed, "another tensor 'w'", [&] { write("w", at::zeros({1}), 2); });
  expect_error(ErrorKind::failed, "__metadata__", [&] { write("__metadata__", at::zeros({1})); });
  expect_error(ErrorKind::failed, "UTF-8", [&] { write("\xff", at::zeros({1})); });
  expect_error(ErrorKind::failed, "undefined", [&] { write("u", at::Tensor()); });
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace pare
