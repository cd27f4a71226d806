#include "pare/zoo/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pare {
namespace {

TEST(EditDistance, TextbookExamples) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("saturday", "sunday"), 3U);
  EXPECT_EQ(edit_distance("fc.weight", "fc.weight"), 0U);
}

TEST(Nearest, SortsByDistanceThenOrder) {
  const std::vector<std::string> names = {"vgg16", "resnet20", "vgg11", "resnet32"};
  EXPECT_THAT(nearest("vgg12", names, 2), testing::ElementsAre("vgg16", "vgg11"));
  EXPECT_THAT(nearest("resnet20", names, 1), testing::ElementsAre("resnet20"));
  EXPECT_EQ(nearest("x", names, 9).size(), 4U);
  EXPECT_TRUE(nearest("x", {}, 3).empty());
}

}  // namespace
}  // namespace pare
