// Pictures with masks, in both layouts, fitted and not.
#include "pare/data/segmentation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/data/image.h"
#include "pare/data/mask.h"
#include "pare/error.h"
#include "support/temporary.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

void write_pair(const fs::path& picture, const fs::path& mask, const at::Tensor& classes) {
  fs::create_directories(picture.parent_path());
  fs::create_directories(mask.parent_path());
  write_png(picture, at::full({3, classes.size(0), classes.size(1)}, 9, at::kByte));
  write_png(mask, classes);
}

at::Tensor small_mask() { return at::tensor({0, 1, 2, 255, 2, 0}, at::kByte).view({2, 3}); }

TEST(SegmentationData, DirectoriesOfImagesAndMasks) {
  TemporaryDirectory directory("segmentation_1");
  for (const char* name : {"b", "a", "c"})
    write_pair(directory.path / "images" / (std::string(name) + ".png"),
               directory.path / "masks" / (std::string(name) + ".png"), small_mask());
  const Dataset data = load_dataset({.data = "segmentation:" + directory.path.string(), .split = "test"});
  EXPECT_EQ(data.label_kind(), LabelKind::masks);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(data.split, "all");
  EXPECT_TRUE(at::equal(data.labels, small_mask().expand({3, 2, 3})));
  EXPECT_EQ(data.files.at(0).path.filename(), "a.png");
  // The one in the middle of three.
  const Dataset one = load_dataset({.data = "segmentation:" + directory.path.string(), .limit = 1});
  EXPECT_EQ(one.files.at(0).path.filename(), "b.png");
  EXPECT_THROW(require_classes(data), Error);
  directory.write("classes.txt", "sky\nroad\n");
  EXPECT_THROW(load_dataset({.data = "segmentation:" + directory.path.string()}), Error)
      << "a mask names a third class";
}

TEST(SegmentationData, VocsLayoutWithItsPaletteAndSplits) {
  TemporaryDirectory directory("segmentation_2");
  const fs::path kit = directory.path / "VOC2012";
  // Class 1 is (128, 0, 0), 255 is (224, 224, 192).
  at::Tensor colours = at::zeros({3, 2, 2}, at::kByte);
  colours[0][0][1] = 128;
  colours[0][1][1] = 224, colours[1][1][1] = 224, colours[2][1][1] = 192;
  fs::create_directories(kit / "JPEGImages");
  fs::create_directories(kit / "SegmentationClass");
  write_png(kit / "SegmentationClass/p.png", colours);
  write_png(kit / "JPEGImages/p.jpg", at::zeros({3, 2, 2}, at::kByte));  // told by its bytes
  directory.write("VOC2012/ImageSets/Segmentation/val.txt", "p\n");
  const Dataset data = load_dataset({.data = "segmentation:" + directory.path.string(), .split = "test", .size = 4});
  EXPECT_EQ(data.classes.size(), 21U);
  EXPECT_EQ(data.classes[1], "aeroplane");
  const at::Tensor mask = at::tensor({0, 1, 0, 255}, at::kByte).view({2, 2});
  EXPECT_TRUE(at::equal(data.labels[0], mask.repeat_interleave(2, 0).repeat_interleave(2, 1))) << "nearest, as a whole";
  EXPECT_THROW(load_dataset({.data = "segmentation:" + directory.path.string(), .split = "train"}), Error);
}

TEST(SegmentationData, MasksThatDoNotFitAreRefused) {
  TemporaryDirectory directory("segmentation_3");
  write_pair(directory.path / "images/a.png", directory.path / "masks/a.png", small_mask());
  write_png(directory.path / "images/a.png", at::zeros({3, 5, 5}, at::kByte));
  EXPECT_THROW(load_dataset({.data = "segmentation:" + directory.path.string()}), Error);
  EXPECT_THROW(decode_mask(at::full({1, 1, 1}, 7, at::kByte), 7, "test"), Error);
  EXPECT_THROW(decode_mask(at::full({3, 1, 1}, 3, at::kByte), 21, "test"), Error);
  EXPECT_EQ(decode_mask(at::full({1, 1, 1}, 255, at::kByte), 2, "test").item<int64_t>(), 255);
  fs::remove(directory.path / "masks/a.png");
  EXPECT_THROW(load_dataset({.data = "segmentation:" + directory.path.string()}), Error);
}

}  // namespace
}  // namespace pare
