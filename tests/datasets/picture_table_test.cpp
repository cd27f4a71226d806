#include "pare/data/picture_table.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/bytes.h"
#include "pare/data/csv.h"
#include "pare/data/dataset.h"
#include "pare/data/image.h"
#include "pare/error.h"
#include "support/paths.h"

namespace pare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A picture of one shade, so that one sees which it is.
std::string shade(int value) { return encode_png(at::full({3, 4, 4}, value, at::kByte)); }

std::vector<int> shades_of(const Dataset& data) {
  std::vector<int> shades;
  for (int64_t i = 0; i < data.size(); ++i) shades.push_back(data.images[i][0][0][0].item<int>());
  return shades;
}

std::vector<int64_t> labels_of(const Dataset& data) {
  const auto* labels = data.labels.data_ptr<int64_t>();
  return {labels, labels + data.labels.numel()};
}

// A directory with pictures 1.png to 4.png, the last two in images/, and a table.
struct Pictures {
  explicit Pictures(const std::string& name) : directory("table_" + name) {
    for (int i = 1; i <= 4; ++i) directory.write((i > 2 ? "images/" : "") + std::to_string(i) + ".png", shade(10 * i));
  }

  Dataset load(const std::string& table, DataOptions options = {}) const {
    directory.write("labels.csv", table);
    options.data = "csv:" + (directory.path / "labels.csv").string();
    return load_dataset(options);
  }

  std::string error(const std::string& table, ErrorKind kind = ErrorKind::format, DataOptions options = {}) const {
    try {
      load(table, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("labels.csv"));
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown for " << table;
    return "";
  }

  TemporaryDirectory directory;
};

TEST(Csv, ReadsQuotesLineEndsAndByteOrderMarks) {
  const auto rows = parse_csv(
      "\xEF\xBB\xBF"
      "a, b ,c\r\n\r\n\"x, y\",\"say \"\"no\"\"\",\"two\nlines\"\n1,,\"\"",
      "t");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0].cells, ElementsAre("a", "b", "c"));
  EXPECT_THAT(rows[1].cells, ElementsAre("x, y", "say \"no\"", "two\nlines"));
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_THAT(rows[2].cells, ElementsAre("1", "", ""));
  EXPECT_EQ(rows[2].line, 5);
  EXPECT_TRUE(parse_csv("", "t").empty());
  EXPECT_THROW(parse_csv("a,\"b", "t"), Error);
  EXPECT_THROW(parse_csv("a,\"b\"c\n", "t"), Error);
  EXPECT_THROW(parse_csv(std::string_view("a,\0b\n", 5), "t"), Error);
}

TEST(PictureTable, TakesIndicesThatDoNotCoverAllClasses) {
  const Pictures pictures("indices");
  const std::string table = "file,label\n1.png,7\n3.png,2\n";
  const Dataset open = pictures.load(table);
  EXPECT_THAT(shades_of(open), ElementsAre(10, 30));
  EXPECT_THAT(labels_of(open), ElementsAre(7, 2));
  EXPECT_EQ(open.classes.size(), 8u);
  EXPECT_EQ(open.split, "all");
  EXPECT_FALSE(open.labels_by_name) << "an index is a place among the scores";
  EXPECT_THAT(open.mean, ElementsAre(0.485, 0.456, 0.406));
  EXPECT_EQ(open.files.size(), 2u);
  pictures.directory.write("classes.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\n");
  EXPECT_EQ(pictures.load(table).classes.size(), 9u);
  EXPECT_THAT(pictures.error("file,label\n1.png,3\n2.png,9\n"), HasSubstr("line 3: label 9 is not one of 9 classes"));
}

TEST(PictureTable, TakesNamesOfClasses) {
  const Pictures pictures("names");
  const std::string table = "label,file,note\r\ndog,1.png,x\r\n\"n02\",2.png,\"y, z\"\r\n";
  const Dataset alone = pictures.load(table);
  EXPECT_THAT(alone.classes, ElementsAre("dog", "n02"));
  EXPECT_TRUE(alone.labels_by_name);
  pictures.directory.write("classes.txt", "hen\nn02 tabby, tabby cat\ndog\n");
  EXPECT_THAT(labels_of(pictures.load(table)), ElementsAre(2, 1));
  EXPECT_THAT(labels_of(pictures.load("file,label\n1.png,\"n02 tabby, tabby cat\"\n")), ElementsAre(1));
  EXPECT_THAT(pictures.error("file,label\n1.png,hen\n2.png,cow\n"), HasSubstr("line 3: \"cow\" is none of the 3"));
  EXPECT_THAT(pictures.error("file,label\n1.png,hen\n2.png,1\n"), HasSubstr("line 3: \"1\" is none"));
  pictures.directory.write("other.txt", "dog\nn02\n");
  const std::string other = (pictures.directory.path / "other.txt").string();
  EXPECT_THAT(labels_of(pictures.load(table, {.class_map = other})), ElementsAre(0, 1));
}

TEST(PictureTable, TakesTheClassesThatAModelKnows) {
  const Pictures pictures("known");
  const DataOptions known{.known_classes = {"x", "dog", "cat"}};
  EXPECT_THAT(labels_of(pictures.load("file,label\n1.png,cat\n2.png,dog\n", known)), ElementsAre(2, 1));
  EXPECT_EQ(pictures.load("file,label\n1.png,1\n", known).classes.size(), 3u);
  EXPECT_THAT(pictures.load("file,label\n1.png,cow\n", known).classes, ElementsAre("cow"));
}

TEST(PictureTable, NumbersThatAreNamesAreNotGuessed) {
  const Pictures pictures("digits");
  pictures.directory.write("classes.txt", "0\n1\n2\n");
  EXPECT_THAT(labels_of(pictures.load("file,label\n1.png,2\n2.png,0\n")), ElementsAre(2, 0));
  pictures.directory.write("classes.txt", "1\n2\n3\n");
  EXPECT_THAT(labels_of(pictures.load("file,label\n1.png,3\n2.png,1\n")), ElementsAre(2, 0)) << "3 is no index";
  EXPECT_THAT(pictures.error("file,label\n1.png,1\n2.png,2\n"), HasSubstr("line 2: label 1 may be"));
}

TEST(PictureTable, IsDividedByItsSplits) {
  const Pictures pictures("splits");
  const std::string table = "file,label,Split\n1.png,0,train\n2.png,1,test\n3.png,0,Train\n4.png,1,val\n";
  const Dataset train = pictures.load(table), test = pictures.load(table, {.split = "test"});
  EXPECT_THAT(shades_of(train), ElementsAre(10, 30));
  EXPECT_EQ(train.split, "train");
  EXPECT_EQ(train.classes.size(), 2u) << "classes of all rows";
  EXPECT_THAT(shades_of(test), ElementsAre(20));
  const std::string val = "file,label,split\n1.png,0,train\n4.png,1,val\n";
  EXPECT_THAT(shades_of(pictures.load(val, {.split = "test"})), ElementsAre(40));
  EXPECT_THAT(pictures.error("file,label,split\n1.png,0,train\n", ErrorKind::file, {.split = "test"}),
              HasSubstr("no row is of the split test; there are train"));
  EXPECT_THAT(pictures.error("file,label,split\n1.png,0,train\n2.png,0,tset\n"),
              HasSubstr("line 3: the split \"tset\""));
  EXPECT_THAT(pictures.error("file,label,split\n1.png,0,\n"), HasSubstr("line 2: the split \"\""));
}

TEST(PictureTable, IsLimitedEvenlyInTheOrderOfItsRows) {
  const Pictures pictures("limit");
  const std::string table = "file,label\n1.png,5\n2.png,5\n3.png,5\n4.png,0\n";
  EXPECT_THAT(shades_of(pictures.load(table, {.limit = 2})), ElementsAre(10, 40));
  EXPECT_THAT(shades_of(pictures.load(table, {.limit = 3})), ElementsAre(10, 20, 40));
}

TEST(PictureTable, NamesTheLineThatIsWrong) {
  const Pictures pictures("wrong");
  EXPECT_THAT(pictures.error("file;label\n1.png;0\n"), HasSubstr("line 1: no column file; expected the columns"));
  EXPECT_THAT(pictures.error("file,class\n1.png,0\n"), HasSubstr("no column label"));
  EXPECT_THAT(pictures.error("file,label,label\n1.png,0,0\n"), HasSubstr("two columns label"));
  EXPECT_THAT(pictures.error("file,label\n1.png,0\n2.png\n"), HasSubstr("line 3: 1 cells for 2 columns"));
  EXPECT_THAT(pictures.error("file,label\n1.png,tench, Tinca\n"), HasSubstr("needs quotes"));
  EXPECT_THAT(pictures.error("file,label\n,0\n"), HasSubstr("line 2: names no file"));
  EXPECT_THAT(pictures.error("file,label\n1.png,\n"), HasSubstr("line 2: has no label"));
  EXPECT_THAT(pictures.error("file,label\n1.png,99999999999\n"), HasSubstr("line 2: 99999999999 is not the index"));
  EXPECT_THAT(pictures.error("file,label\n"), HasSubstr("no pictures"));
  EXPECT_THAT(pictures.error(""), HasSubstr("no pictures"));
  EXPECT_THAT(pictures.error("file,label\n1.png,0\n5.png,0\n", ErrorKind::file),
              HasSubstr("line 3: there is no picture 5.png"));
  EXPECT_THROW(load_dataset({.data = "csv:/nowhere.csv"}), Error);
  EXPECT_THROW(load_dataset({.data = "csv"}), Error);
}

// The pictures that real networks are measured with, where they are here.
TEST(PictureTable, ReadsTheSampleOfImageNet) {
  const auto path = shared_data("imagenet-sample/labels.csv");
  if (path.empty()) GTEST_SKIP() << "../shared/data/imagenet-sample is not here";
  const DataOptions options{.data = "csv:" + path.string(), .split = "test", .limit = 5, .size = 32};
  const Dataset data = load_dataset(options);
  EXPECT_EQ(data.classes.size(), 1000u);
  EXPECT_THAT(labels_of(data), ElementsAre(1, 2, 5, 6, 9));
  EXPECT_EQ(data.images.sizes(), at::IntArrayRef({5, 3, 32, 32}));
}

}  // namespace
}  // namespace pare
