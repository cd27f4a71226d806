// Text from files on its way to a screen.
#include "pare/core/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pare/core/options.h"

namespace pare {
namespace {

TEST(EscapeControls, LeavesPlainTextAndOtherScripts) {
  for (const std::string text : {"conv1.weight", "größe × ⅓", "重み", "\U0001F600", ""})
    EXPECT_EQ(escape_controls(text), text);
}

TEST(EscapeControls, EscapesWhatSteersATerminal) {
  EXPECT_EQ(escape_controls("a\x1b[31mb"), "a\\x1b[31mb");
  EXPECT_EQ(escape_controls("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(escape_controls("\x7f"), "\\x7f");
  EXPECT_EQ(escape_controls("\xc2\x9b"
                            "31m"),
            "\\u009b31m");  // the control sequence introducer of C1
  EXPECT_EQ(escape_controls("\xe2\x80\xae"
                            "cba"),
            "\\u202ecba");
  EXPECT_EQ(escape_controls(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(escape_controls("a\nb\x1b", LineEnds::keep), "a\nb\\x1b");
}

TEST(EscapeControls, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(escape_controls("a\xff"
                            "b"),
            "a\\xffb");
  EXPECT_EQ(escape_controls("\x9b"
                            "31m"),
            "\\x9b31m");  // C1 as a single byte
  EXPECT_EQ(escape_controls("\xe2\x80"), "\\xe2\\x80");
  EXPECT_EQ(escape_controls("\xc0\x9b"), "\\xc0\\x9b");           // overlong
  EXPECT_EQ(escape_controls("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

// Nothing that a terminal acts on is left, whatever the bytes; and what is left is UTF-8.
TEST(EscapeControls, LeavesNothingThatSteers) {
  uint32_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    const std::string shown = escape_controls(text);
    EXPECT_TRUE(is_utf8(shown));
    for (std::string_view rest = shown; !rest.empty(); rest.remove_prefix(first_character(rest).length))
      EXPECT_FALSE(steers_display(first_character(rest).code));
  }
}

TEST(JsonText, EscapesControlsBeyondAscii) {
  const nlohmann::json value = {{"name", "a\xc2\x9b\xe2\x80\xae\x7f\xff\xf3\xa0\x81\x81ü"}};
  const std::string text = json_text(value);
  EXPECT_EQ(text, "{\"name\":\"a\\u009b\\u202e\\u007f\xef\xbf\xbd\\udb40\\udc41ü\"}");
  EXPECT_EQ(nlohmann::json::parse(text)["name"], "a\xc2\x9b\xe2\x80\xae\x7f\xef\xbf\xbd\xf3\xa0\x81\x81ü");
}

}  // namespace
}  // namespace pare
