#include "pare/report/diff_page.h"

#include <gtest/gtest.h>

namespace pare {
namespace {

std::string page_of(const DiffPage& page) { return html_page(page, Graph{}, Graph{}, GraphDiff{}); }

TEST(DiffPage, AnOutputWithAProblemHasNoFigures) {
  DiffPage page{.title = "a and b", .a = "a", .b = "b", .totals = {}, .outputs = {}, .problem = ""};
  page.outputs = {{"same", 0.25, 0.125, ""}, {"other", 0, 0, "found <float32> 1x10, expected float32 1x12"}};
  const std::string html = page_of(page);
  EXPECT_NE(html.find("<td class=\"n\">0.25</td><td class=\"n\">0.125</td>"), std::string::npos);
  EXPECT_NE(html.find("found &lt;float32&gt; 1x10, expected float32 1x12"), std::string::npos);
  EXPECT_EQ(html.find("<td class=\"n\">0</td>"), std::string::npos);
}

TEST(DiffPage, SaysWhyNothingWasCompared) {
  DiffPage page{.title = "a and b", .a = "a", .b = "b", .totals = {}, .outputs = {}, .problem = ""};
  EXPECT_EQ(page_of(page).find("<h2>Outputs</h2>"), std::string::npos);
  page.problem = "the models have 1 & 2 inputs";
  EXPECT_NE(page_of(page).find("The outputs were not compared: the models have 1 &amp; 2 inputs"), std::string::npos);
}

}  // namespace
}  // namespace pare
