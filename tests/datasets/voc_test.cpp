#include "pare/data/voc.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/bytes.h"
#include "datasets/samples.h"
#include "pare/data/image.h"
#include "pare/data/loader.h"
#include "pare/error.h"

namespace pare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A kit of two training images and one that also has a mask. The images are the 8 x 8 JPEG of the samples.
void write_kit(const TemporaryDirectory& directory, const std::string& kit = "VOC2012/") {
  const std::string jpeg = samples::from_hex(samples::rgb_jpeg.file);
  for (const char* id : {"2007_000001", "2007_000002", "2008_000003"})
    directory.write(kit + "JPEGImages/" + id + ".jpg", jpeg);
  directory.write(kit + "Annotations/2007_000001.xml",
                  "<?xml version=\"1.0\"?>\n<!-- made by a test -->\n<annotation><folder>VOC2012</folder>"
                  "<object><name>dog</name><part><name>head</name></part></object>"
                  "<object><name> person </name><difficult>1</difficult></object>"
                  "<object><name>dog</name></object></annotation>\n");
  directory.write(kit + "Annotations/2007_000002.xml",
                  "<annotation><object><name>tvmonitor</name></object></annotation>");
  directory.write(
      kit + "Annotations/2008_000003.xml",
      "<annotation><object><name>aeroplane</name></object><object><name>tvmonitor</name></object></annotation>");
  directory.write(kit + "ImageSets/Main/train.txt", "2007_000001\n2007_000002  1\r\n\n");
  directory.write(kit + "ImageSets/Main/val.txt", "2008_000003\n");
  directory.write(kit + "ImageSets/Segmentation/val.txt", "2008_000003\n");
  // The left half is an aeroplane (128, 0, 0), then a column of void, then a tvmonitor (0, 64, 128), then background.
  auto mask = at::zeros({3, 8, 8}, at::kByte);
  mask[0].slice(1, 0, 4).fill_(128);
  mask.slice(2, 4, 5).copy_(at::tensor({224, 224, 192}, at::kByte).view({3, 1, 1}).expand({3, 8, 1}));
  mask[1].slice(1, 5, 7).fill_(64);
  mask[2].slice(1, 5, 7).fill_(128);
  directory.write(kit + "SegmentationClass/2008_000003.png", encode_png(mask));
}

TEST(Voc, ReadsATinyKit) {
  const TemporaryDirectory directory("voc");
  write_kit(directory);
  const std::string name = "voc:" + directory.path.string();
  const auto train = load_dataset({.data = name, .size = 4});
  EXPECT_EQ(train.images.sizes(), at::IntArrayRef({2, 3, 4, 4}));
  ASSERT_TRUE(train.multi_label());
  EXPECT_FALSE(train.masks.defined());
  EXPECT_EQ(train.classes.size(), 20u);
  EXPECT_EQ(train.labels[0].sum().item<int>(), 2);
  EXPECT_EQ(train.labels[0][11].item<int>(), 1) << "dog";
  EXPECT_EQ(train.labels[0][14].item<int>(), 1) << "person";
  EXPECT_EQ(train.labels[1][19].item<int>(), 1) << "tvmonitor";
  EXPECT_EQ(load_dataset({.data = name, .split = "test", .size = 4}).size(), 1);
  EXPECT_EQ(load_dataset({.data = name, .limit = 1}).images.sizes(), at::IntArrayRef({1, 3, 8, 8}));
  const auto kit = load_dataset({.data = "voc:" + (directory.path / "VOC2012").string()});
  EXPECT_TRUE(at::equal(kit.labels, train.labels));
  const auto batch = make_batch(train, 0, 2);
  EXPECT_EQ(batch.labels.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(batch.labels, train.labels.to(at::kFloat)));
}

TEST(Voc, ReadsMasksInItsPalette) {
  const TemporaryDirectory directory("voc_masks");
  write_kit(directory);
  const std::string name = "voc:" + directory.path.string();
  const auto data = load_dataset({.data = name, .split = "segmentation"});
  EXPECT_EQ(data.split, "segmentation");
  const auto row = at::tensor({1, 1, 1, 1, 255, 20, 20, 0}, at::kByte);
  EXPECT_TRUE(at::equal(data.masks, row.expand({1, 8, 8}))) << data.masks;
  const auto half = load_dataset({.data = name, .split = "segmentation", .size = 4});
  EXPECT_TRUE(at::equal(half.masks[0][0], at::tensor({1, 1, 20, 0}, at::kByte))) << half.masks;
  // The indices themselves, as some tools store them.
  directory.write("VOC2012/SegmentationClass/2008_000003.png", encode_png(data.masks));
  EXPECT_TRUE(at::equal(load_dataset({.data = name, .split = "segmentation"}).masks, data.masks));
  directory.write("VOC2012/SegmentationClass/2008_000003.png", encode_png(data.masks + 1));
  EXPECT_THROW(load_dataset({.data = name, .split = "segmentation"}), Error);
  directory.write("VOC2012/SegmentationClass/2008_000003.png", encode_png(at::full({3, 8, 8}, 7, at::kByte)));
  EXPECT_THROW(load_dataset({.data = name, .split = "segmentation"}), Error);
  directory.write("VOC2012/SegmentationClass/2008_000003.png", encode_png(at::zeros({3, 8, 9}, at::kByte)));
  EXPECT_THROW(load_dataset({.data = name, .split = "segmentation"}), Error);
}

TEST(Voc, TakesTheLatestYearAndLooksInTheDevkit) {
  const TemporaryDirectory directory("voc_years");
  write_kit(directory, "VOCdevkit/VOC2007/");
  write_kit(directory, "VOCdevkit/VOC2012/");
  directory.write("VOCdevkit/VOC2012/ImageSets/Main/train.txt", "2007_000002\n");
  EXPECT_EQ(load_dataset({.data = "voc:" + directory.path.string()}).size(), 1);
  EXPECT_EQ(load_dataset({.data = "voc:" + (directory.path / "VOCdevkit").string()}).size(), 1);
}

TEST(Voc, SaysWhatIsWrong) {
  const TemporaryDirectory directory("voc_wrong");
  const std::string name = "voc:" + directory.path.string();
  const auto message = [&](DataOptions options = {}) {
    options.data = name;
    try {
      load_dataset(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(message(), HasSubstr("is not a VOC development kit"));
  write_kit(directory);
  EXPECT_THAT(message({.split = "validation"}), HasSubstr("segmentation of voc:DIR"));
  const auto list = [&](const std::string& text) { directory.write("VOC2012/ImageSets/Main/train.txt", text); };
  for (const char* hostile : {"../../etc/passwd", "/etc/passwd", "..", "a\\b"}) {
    list(hostile);
    EXPECT_THAT(message(), HasSubstr("is not an image's name")) << hostile;
  }
  list("");
  EXPECT_THAT(message(), HasSubstr("names no images"));
  list("2007_000009");
  EXPECT_THAT(message(), HasSubstr("2007_000009.jpg"));
  list("2007_000001");
  directory.write("VOC2012/Annotations/2007_000001.xml",
                  "<annotation><object><name>unicorn</name></object></annotation>");
  EXPECT_THAT(message(), HasSubstr("'unicorn' is not one of VOC's 20 classes"));
  directory.write("VOC2012/Annotations/2007_000001.xml", "<annotation><object>");
  EXPECT_THAT(message(), HasSubstr("ends inside the element 'object'"));
}

TEST(Voc, ReadsTheXmlItNeedsAndRefusesTheRest) {
  const auto names = [](const std::string& xml) { return decode_voc_objects(xml, "test"); };
  EXPECT_THAT(names("<annotation/>"), ElementsAre());
  EXPECT_THAT(names("\xEF\xBB\xBF<!DOCTYPE annotation><annotation a='1' b = \"x>y\"><object x=''><name>c<![CDATA[a]]>"
                    "&#116;</name></object ></annotation>"),
              ElementsAre("cat"));
  EXPECT_THAT(names("<annotation><object><name>&lt;&amp;&#xe9;</name></object></annotation>"), ElementsAre("<&é"));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<annotation>";
  for (const std::string& broken : {std::string(),
                                    std::string("hello"),
                                    std::string("<other/>"),
                                    std::string("<annotation>"),
                                    std::string("<annotation></b>"),
                                    std::string("</annotation>"),
                                    std::string("<annotation/><annotation/>"),
                                    std::string("<annotation>&bomb;</annotation>"),
                                    std::string("<annotation>&#0;</annotation>"),
                                    std::string("<annotation>&#x110000;</annotation>"),
                                    std::string("<annotation>&#99999999999;</annotation>"),
                                    std::string("<annotation"),
                                    std::string("<annotation a>"),
                                    std::string("<annotation a=1/>"),
                                    std::string("<annotation a='1/>"),
                                    std::string("<!-- <annotation/>"),
                                    std::string("<"),
                                    std::string("<>"),
                                    std::string("<!DOCTYPE a [<!ENTITY b 'c'>]><annotation/>"),
                                    std::string("<annotation>&"),
                                    deep})
    EXPECT_THROW(names(broken), Error) << broken.substr(0, 80);
}

}  // namespace
}  // namespace pare
