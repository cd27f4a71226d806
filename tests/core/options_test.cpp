#include "pare/core/options.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace pare {
namespace {

TEST(JsonText, TakesAnyBytes) {
  EXPECT_EQ(json_text("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_text("ä–"), "\"ä–\"");
  EXPECT_EQ(json_text({{"a", 1}}), "{\"a\":1}");
  EXPECT_EQ(json_text({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(to_toml({{"model", "a\xFF"}, {"seed", 3}}), "model = \"a\xEF\xBF\xBD\"\nseed = 3\n");
}

}  // namespace
}  // namespace pare
