// Boxes from COCO's JSON, VOC's XML and YOLO's texts, and where a fitted picture puts them.
#include "pare/data/boxes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pare/data/coco.h"
#include "pare/data/dataset.h"
#include "pare/data/image.h"
#include "pare/data/preprocess.h"
#include "pare/data/voc.h"
#include "pare/data/yolo_boxes.h"
#include "pare/error.h"
#include "support/temporary.h"

namespace pare {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCoco = R"({
  "images": [{"id": 9, "file_name": "a.png"}, {"id": 4, "file_name": "b.png"}],
  "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}],
  "annotations": [
    {"image_id": 9, "category_id": 18, "bbox": [2, 1, 4, 3], "iscrowd": 0, "segmentation": [[1, 2, 3]]},
    {"image_id": 9, "category_id": 3, "bbox": [0, 0, 8, 6], "iscrowd": 1},
    {"image_id": 9, "category_id": 3}
  ]})";

TEST(Boxes, OfCocosJson) {
  const CocoBoxes found = decode_coco(kCoco, {}, "test");
  EXPECT_EQ(found.classes, (std::vector<std::string>{"car", "dog"})) << "in the order of the ids";
  ASSERT_EQ(found.images.size(), 2U);
  ASSERT_EQ(found.images[0].boxes.size(), 2U);
  const LabelledBox& dog = found.images[0].boxes[0];
  EXPECT_EQ(dog.label, 1);
  EXPECT_EQ(dog.right, 6);
  EXPECT_EQ(dog.bottom, 4);
  EXPECT_EQ(found.images[0].boxes[1].crowd, kCrowd);
  EXPECT_EQ(decode_coco(kCoco, {"cat", "dog", "car"}, "test").images[0].boxes[1].label, 2);
  EXPECT_THROW(decode_coco(kCoco, {"cat", "dog"}, "test"), Error);
}

TEST(Boxes, CocoFilesThatAreBroken) {
  const std::string whole = kCoco;
  for (size_t end = 0; end < whole.size(); end += 7)
    EXPECT_THROW(decode_coco(whole.substr(0, end), {}, "test"), Error) << end;
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"image_id\": 9", "\"image_id\": 1"},
                                                        {"\"category_id\": 18", "\"category_id\": \"dog\""},
                                                        {"[2, 1, 4, 3]", "[2, 1, 4]"},
                                                        {"a.png", "../a.png"},
                                                        {"\"id\": 4", "\"id\": 9"}}) {
    std::string broken = whole;
    broken.replace(broken.find(from), from.size(), to);
    EXPECT_THROW(decode_coco(broken, {}, "test"), Error) << to;
  }
}

TEST(Boxes, CocoPicturesLieBesideTheFile) {
  TemporaryDirectory directory("boxes_1");
  fs::create_directories(directory.path / "val2017");
  for (const char* name : {"a.png", "b.png"})
    write_png(directory.path / "val2017" / name, at::zeros({3, 6, 8}, at::kByte));
  const auto file = directory.write("annotations/instances_val2017.json", kCoco);
  const Dataset data = load_dataset({.data = "coco:" + file.string(), .size = 12, .width = 16});
  EXPECT_EQ(data.label_kind(), LabelKind::boxes);
  EXPECT_EQ(data.labels.sizes(), (std::vector<int64_t>{2, 2, 6}));
  EXPECT_TRUE(at::equal(data.labels[0][0], at::tensor({4.f, 2.f, 12.f, 8.f, 1.f, 0.f})));
  EXPECT_EQ(data.labels[1][0][4].item<double>(), -1) << "a picture without boxes";
  fs::remove(directory.path / "val2017/b.png");
  EXPECT_THROW(load_dataset({.data = "coco:" + file.string()}), Error);
}

TEST(Boxes, OfYolosTexts) {
  const auto boxes = decode_yolo_boxes("3 0.5 0.5 0.2 0.4\n\n 0 1 1 2 2\r\n", "test");
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(boxes[0].label, 3);
  EXPECT_DOUBLE_EQ(boxes[0].left, 0.4);
  EXPECT_DOUBLE_EQ(boxes[0].bottom, 0.7);
  for (const char* broken : {"1 2 3 4", "x 0 0 1 1", "1.5 0 0 1 1", "-1 0 0 1 1", "1 nan 0 1 1", "1 0 0 1 1 0.9"})
    EXPECT_THROW(decode_yolo_boxes(broken, "test"), Error) << broken;
  TemporaryDirectory directory("boxes_2");
  for (const char* split : {"train", "val"}) {
    fs::create_directories(directory.path / "images" / split);
    write_png(directory.path / "images" / split / "p.png", at::zeros({3, 10, 20}, at::kByte));
  }
  directory.write("labels/val/p.txt", "1 0.5 0.5 0.5 0.4\n");
  const Dataset data = load_dataset({.data = "yolo:" + directory.path.string(), .split = "test"});
  EXPECT_TRUE(at::allclose(data.labels[0][0], at::tensor({5.f, 3.f, 15.f, 7.f, 1.f, 0.f})));
  EXPECT_EQ(data.classes.size(), 2U);
  EXPECT_EQ(load_dataset({.data = "yolo:" + directory.path.string(), .split = "train"}).labels.numel(), 0);
}

TEST(Boxes, OfVocsXml) {
  const std::string xml =
      "<annotation><object><name>dog</name><difficult>1</difficult><bndbox><xmin>3</xmin><ymin>1</ymin><xmax>6</xmax>"
      "<ymax>4</ymax></bndbox><part><name>head</name><bndbox><xmin>9</xmin></bndbox></part></object>"
      "<object><name>cat</name></object></annotation>";
  const auto objects = decode_voc_boxes(xml, "test");
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0].box, (std::array<double, 4>{3, 1, 6, 4}));
  EXPECT_TRUE(objects[0].difficult);
  EXPECT_EQ(objects[1].name, "cat");
  EXPECT_THROW(decode_voc_boxes("<annotation><object><bndbox><xmin>a</xmin></bndbox></object></annotation>", "test"),
               Error);
}

// A white box on black is found again where the box says, for every way to fit.
TEST(Boxes, GoWhereThePictureGoes) {
  const PictureSize from{60, 90};
  at::Tensor picture = at::zeros({3, from.height, from.width}, at::kByte);
  picture.slice(1, 20, 40).slice(2, 30, 66).fill_(255);
  const at::Tensor box = at::tensor({30.f, 20.f, 66.f, 40.f}).view({1, 4});
  for (const ImageFit fit : {ImageFit::stretch, ImageFit::crop, ImageFit::imagenet, ImageFit::letterbox})
    for (const PictureSize size : {PictureSize{64, 64}, PictureSize{120, 100}, PictureSize{40, 90}}) {
      const at::Tensor seen = fit_image(picture, size, fit)[0];
      const at::Tensor rows = (seen > 190).any(1).nonzero(), columns = (seen > 190).any(0).nonzero();
      const at::Tensor moved = fit_boxes(box, from, size, fit)[0];
      EXPECT_NEAR(moved[0].item<double>(), columns.min().item<double>(), 1.1) << to_string(fit);
      EXPECT_NEAR(moved[1].item<double>(), rows.min().item<double>(), 1.1) << to_string(fit);
      EXPECT_NEAR(moved[2].item<double>(), columns.max().item<double>() + 1, 1.1) << to_string(fit);
      EXPECT_NEAR(moved[3].item<double>(), rows.max().item<double>() + 1, 1.1) << to_string(fit);
    }
  EXPECT_EQ(box[0][0].item<double>(), 30) << "left as it was";
}

TEST(Boxes, LetterboxKeepsProportionsOnGray) {
  const at::Tensor seen = fit_image(at::full({3, 10, 20}, 200, at::kByte), {16, 16}, ImageFit::letterbox);
  EXPECT_TRUE(seen.slice(1, 4, 12).eq(200).all().item<bool>());
  EXPECT_TRUE(seen.slice(1, 0, 4).eq(114).all().item<bool>());
  EXPECT_TRUE(seen.slice(1, 12, 16).eq(114).all().item<bool>());
  EXPECT_EQ(fit_mask(at::zeros({10, 20}, at::kByte), {16, 16}, ImageFit::letterbox)[0][0].item<int64_t>(), 255);
}

TEST(Boxes, ThatNothingIsLeftOfAreGone) {
  const std::vector<std::vector<LabelledBox>> boxes = {{{0, 0, 5, 5, 2}, {40, 10, 50, 20, 1}}};
  const std::vector<PictureFile> files = {{"p", {3, 30, 90}}};
  const at::Tensor packed = packed_boxes(boxes, files, {30, 30}, ImageFit::crop);
  ASSERT_EQ(packed.sizes(), (std::vector<int64_t>{1, 1, 6}));
  EXPECT_TRUE(at::allclose(packed[0][0], at::tensor({10.f, 10.f, 20.f, 20.f, 1.f, 0.f})));
}

}  // namespace
}  // namespace pare
