#include "pare/io/checkpoint.h"

#include "io/io_support.h"
#include "pare/io/safetensors.h"
#include "pare/io/weights.h"

namespace pare {
namespace {

using namespace std::string_literals;

const at::Tensor& tensor_in(const NamedTensors& weights, std::string_view name) {
  const at::Tensor* tensor = weights.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + std::string(name));
  return *tensor;
}

// Sums over all tensors: of the absolute values, and of each value times its place (from 1). The expected ones are
// PyTorch's own, from torch.load of the same file.
std::pair<double, double> checksums(const NamedTensors& weights) {
  std::pair<double, double> sums;
  for (const auto& [name, tensor] : weights.tensors) {
    const at::Tensor flat = tensor.to(at::kDouble).flatten();
    sums.first += flat.abs().sum().item<double>();
    sums.second += flat.dot(at::arange(1, flat.numel() + 1, at::kDouble)).item<double>();
  }
  return sums;
}

class BothFormats : public testing::TestWithParam<std::string> {
 protected:
  NamedTensors read(const std::string& name) {
    return read_checkpoint(golden("io/" + name + "_" + GetParam() + ".pth"));
  }
};
INSTANTIATE_TEST_SUITE_P(Checkpoint, BothFormats, testing::Values("legacy", "zip"), [](auto& p) { return p.param; });

TEST_P(BothFormats, ReadEveryDtype) {
  const NamedTensors weights = read("dtypes");
  ASSERT_EQ(weights.tensors.size(), 12u);
  EXPECT_EQ(weights.tensors[1].first, "f32");
  EXPECT_EQ(values_of<double>(tensor_in(weights, "f64")), (std::vector<double>{1.5, -2.5}));
  EXPECT_TRUE(at::equal(tensor_in(weights, "f32"), at::arange(12, at::kFloat).reshape({3, 4})));
  EXPECT_TRUE(at::equal(tensor_in(weights, "f16"), at::tensor({0.5, 1.25}, at::kDouble).to(at::kHalf)));
  EXPECT_TRUE(at::equal(tensor_in(weights, "bf16"), at::tensor({0.5, -3.0}, at::kDouble).to(at::kBFloat16)));
  EXPECT_EQ(values_of<int64_t>(tensor_in(weights, "i64")), (std::vector<int64_t>{-1, int64_t{1} << 40}));
  EXPECT_EQ(values_of<int32_t>(tensor_in(weights, "i32")), (std::vector<int32_t>{7, -8}));
  EXPECT_EQ(values_of<int16_t>(tensor_in(weights, "i16")), (std::vector<int16_t>{300, -300}));
  EXPECT_EQ(values_of<int8_t>(tensor_in(weights, "i8")), (std::vector<int8_t>{1, -128}));
  EXPECT_EQ(values_of<uint8_t>(tensor_in(weights, "u8")), (std::vector<uint8_t>{0, 255}));
  EXPECT_TRUE(at::equal(tensor_in(weights, "bool"), at::tensor({1, 0, 1}, at::kLong).to(at::kBool)));
  EXPECT_EQ(tensor_in(weights, "scalar").item<int64_t>(), 42);
  EXPECT_EQ(tensor_in(weights, "scalar").dim(), 0);
  EXPECT_EQ(tensor_in(weights, "empty").sizes(), at::IntArrayRef({0, 3}));
}

TEST_P(BothFormats, FindTheStateDictAndItsViews) {
  const NamedTensors weights = read("nested");
  ASSERT_EQ(weights.tensors.size(), 5u);
  const at::Tensor base = at::arange(12, at::kFloat);
  EXPECT_EQ(weights.tensors[0].first, "transposed");  // "module." is gone
  EXPECT_TRUE(at::equal(tensor_in(weights, "transposed"), base.reshape({3, 4}).t()));
  EXPECT_EQ(values_of<float>(tensor_in(weights, "part")), (std::vector<float>{4, 6, 8}));
  EXPECT_TRUE(at::equal(tensor_in(weights, "tied"), base));
  EXPECT_EQ(tensor_in(weights, "tied").data_ptr(), tensor_in(weights, "transposed").data_ptr());
  EXPECT_EQ(tensor_in(weights, "expanded").strides(), at::IntArrayRef({0, 0}));
  EXPECT_EQ(values_of<float>(tensor_in(weights, "expanded")), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values_of<float>(tensor_in(weights, "parameter")), std::vector<float>{9});
  EXPECT_FALSE(tensor_in(weights, "parameter").requires_grad());
  const std::map<std::string, std::string> notes = {{"epoch", "12"}, {"best_prec1", "91.5"}, {"arch", "resnet20"},
                                                    {"ema", "true"}, {"accuracy", "0.25"},   {"device", "cuda:0"}};
  EXPECT_EQ(weights.metadata, notes);
  const std::vector<std::string> ignored = {"'args': argparse.Namespace", "'optimizer': a dict of 2",
                                            "'shape': a tuple", "'dtype': a type", "'milestones': a dict of 2"};
  EXPECT_EQ(weights.ignored, ignored);
}

TEST_P(BothFormats, ReadProtocol4) {
  EXPECT_EQ(values_of<float>(tensor_in(read("protocol4"), "weight")), (std::vector<float>{1, 2}));
}

TEST_P(BothFormats, SurviveDamage) {
  expect_robust(text_of_file(golden("io/tiny_" + GetParam() + ".pth")), parse_weights);
}

TEST(Checkpoint, ReadsThePublishedLenet) {
  const auto path = shared_data("lenet-300-100.fashion-mnist.pth.tar");
  if (path.empty()) GTEST_SKIP() << "the shared LeNet checkpoint is absent: set PARE_SHARED to the folder above data/";
  const NamedTensors weights = read_weights(path);
  ASSERT_EQ(weights.tensors.size(), 6u);
  EXPECT_EQ(tensor_in(weights, "ip1.weight").sizes(), at::IntArrayRef({300, 784}));
  EXPECT_EQ(tensor_in(weights, "ip3.bias").sizes(), at::IntArrayRef({10}));
  EXPECT_EQ(weights.metadata.at("acc"), "89.8");
  EXPECT_NEAR(checksums(weights).first, 9582.93700765653, 1e-6);
  EXPECT_NEAR(checksums(weights).second, 66886764.62364963, 1e-3);
}

TEST(Checkpoint, ReadsThePublishedResnet) {
  const auto path = shared_data("resnet20.cifar10.th");
  if (path.empty()) GTEST_SKIP() << "the shared ResNet checkpoint is absent: set PARE_SHARED to the folder above data/";
  const NamedTensors weights = read_weights(path);
  EXPECT_EQ(weights.tensors.front().first, "conv1.weight");
  EXPECT_EQ(tensor_in(weights, "conv1.weight").sizes(), at::IntArrayRef({16, 3, 3, 3}));
  EXPECT_EQ(tensor_in(weights, "linear.bias").sizes(), at::IntArrayRef({10}));
  EXPECT_EQ(weights.metadata.at("best_prec1"), "91.78000183105469");
  int64_t learned = 0;
  for (const auto& [name, tensor] : weights.tensors) {
    EXPECT_TRUE(at::isfinite(tensor).all().item<bool>()) << name;
    if (!name.ends_with("running_mean") && !name.ends_with("running_var")) learned += tensor.numel();
  }
  EXPECT_EQ(learned, 269722);  // the 0.27 M of the paper
  EXPECT_EQ(weights.tensors.size(), 97u);
  EXPECT_NEAR(checksums(weights).first, 21349.562590950623, 1e-6);
  EXPECT_NEAR(checksums(weights).second, -16340742.522956012, 1e-3);
}

TEST(Checkpoint, NamesWhatItDoesNotSupport) {
  const auto refused = [](const std::string& file, std::string_view part) {
    expect_error(ErrorKind::unsupported, part, [&] { read_weights(golden("io/" + file)); });
  };
  refused("script_zip.pt", "TorchScript");
  refused("sparse_zip.pth", "sparse tensors are not supported");
  refused("quantized_zip.pth", "quantized tensors are not supported");
  refused("module_zip.pth", "state_dict()");
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  expect_error(ErrorKind::unsupported, "tar archive", [&] { parse_weights(ByteSource::copy(tar, "old.pth")); });
  for (const std::string& bytes : {""s, "hello"s, "\x80\x02N."s, "\x89PNG\r\n\x1a\n"s, "<html>"s})
    expect_error(ErrorKind::format, "expected safetensors", [&] { parse_weights(ByteSource::copy(bytes, "x")); });
}

// A legacy file around an object; the storage "k" holds the floats 0, 1, 2, 3.
std::string legacy_file(const std::string& object, const std::string& numel = raw(uint64_t{4})) {
  const std::string magic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s;
  const std::string floats = raw(0.0f) + raw(1.0f) + raw(2.0f) + raw(3.0f);
  return magic + "\x80\x02M\xe9\x03." + "\x80\x02}." + "\x80\x02" + object + "." + "\x80\x02](U\x01ke." + numel +
         floats;
}

// The tensor "w" over that storage.
std::string legacy_tensor(const std::string& offset, const std::string& sizes, const std::string& strides,
                          const std::string& view = "N") {
  return "}U\x01wctorch._utils\n_rebuild_tensor\n((U\x07storagectorch\nFloatStorage\nU\x01kU\x06"
         "cuda:0K\4" +
         view + "tQ" + offset + sizes + strides + "tRs";
}

NamedTensors parse_tensor(const std::string& offset, const std::string& sizes, const std::string& strides,
                          const std::string& view = "N") {
  return parse_weights(ByteSource::copy(legacy_file(legacy_tensor(offset, sizes, strides, view)), "legacy.pth"));
}

TEST(Checkpoint, KeepsViewsWithinTheirStorage) {
  EXPECT_EQ(values_of<float>(tensor_in(parse_tensor("K\1", "K\2\x85", "K\2\x85"), "w")), (std::vector<float>{1, 3}));
  EXPECT_EQ(values_of<float>(tensor_in(parse_tensor("K\0"s, "K\2\x85", "K\1\x85", "(U\1vK\2K\2t"), "w")),
            (std::vector<float>{2, 3}));
  const auto refused = [](std::string_view part, const std::string& offset, const std::string& sizes,
                          const std::string& strides, const std::string& view = "N") {
    expect_error(ErrorKind::format, part, [&] { parse_tensor(offset, sizes, strides, view); });
  };
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", large = "J\xff\xff\xff\x7f";
  refused("leaves its storage of 4", "K\0"s, "K\5\x85", "K\1\x85");
  refused("leaves its storage of 4", "K\3", "K\2\x85", "K\1\x85");
  refused("leaves its storage of 4", huge, "K\1\x85", "K\1\x85");
  refused("leaves its storage of 4", "K\0"s, "K\3\x85", huge + "\x85");
  refused("leaves its storage of 2", "K\0"s, "K\3\x85", "K\1\x85", "(U\1vK\2K\2t");
  refused("leaves its storage of 4", "K\0"s, "K\5\x85", "K\1\x85", "(U\1vK\0K\5t"s);
  refused("from 0 on", "J\xff\xff\xff\xff", "K\1\x85", "K\1\x85");
  refused("from 0 on", "K\0"s, "J\xff\xff\xff\xff\x85", "K\1\x85");
  refused("from 0 on", "K\0"s, "K\1\x85", "J\xff\xff\xff\xff\x85");
  refused("strides", "K\0"s, "K\1\x85", "K\1K\1\x86");
  refused("2^63", "K\0"s, huge + huge + "\x86", "K\0K\0\x86"s);
  refused("more than the file can hold", "K\0"s, large + "\x85", "K\0\x85"s);
  refused("a tuple", "K\0"s, "N", "N");
}

TEST(Checkpoint, RefusesDisorderlyLegacyFiles) {
  const std::string tensor = legacy_tensor("K\0"s, "K\1\x85", "K\1\x85");
  const auto refused = [](ErrorKind kind, std::string_view part, const std::string& file) {
    expect_error(kind, part, [&] { parse_weights(ByteSource::copy(file, "legacy.pth")); });
  };
  refused(ErrorKind::format, "expected 4 elements, found 5", legacy_file(tensor, raw(uint64_t{5})));
  refused(ErrorKind::format, "that no tensor uses", legacy_file("}"));
  refused(ErrorKind::unsupported, "expected a dict of tensors", legacy_file(tensor + "0N"));
  refused(ErrorKind::unsupported, "os.system", legacy_file(tensor + "cos\nsystem\n(U\x04trueteR"));
  std::string twice = tensor;
  twice.insert(twice.size() - 1, "q\1"s);
  refused(ErrorKind::format, "'w' twice", legacy_file(twice + "U\1wh\1s"));
  const NamedTensors weights = parse_weights(ByteSource::copy(legacy_file(tensor) + "tail", "legacy.pth"));
  EXPECT_EQ(weights.ignored, std::vector<std::string>{"4 bytes after the last storage"});
}

TEST(Weights, ChoosesByContent) {
  NamedTensors weights;
  for (int i = 0; i < 3; ++i) weights.tensors.emplace_back(fmt::format("w{}", i), at::full({2}, i));
  const auto path = temporary_file("named.pth");
  write_safetensors(path, weights);
  EXPECT_EQ(read_weights(path).tensors.size(), 3u);
  std::filesystem::remove(path);
  expect_error(ErrorKind::file, "absent.pth", [] { read_weights("/nonexistent/absent.pth"); });
}

}  // namespace
}  // namespace pare
