#include "pare/core/options.h"
#include "pare/core/option_scope.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "pare/core/toml.h"
#include "pare/error.h"

namespace pare {
namespace {

TEST(JsonText, TakesAnyBytes) {
  EXPECT_EQ(json_text("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_text("ä–"), "\"ä–\"");
  EXPECT_EQ(json_text({{"a", 1}}), "{\"a\":1}");
  EXPECT_EQ(json_text({{"a", 1}}, 2), "{\n  \"a\": 1\n}");
  EXPECT_EQ(to_toml({{"model", "a\xFF"}, {"seed", 3}}), "model = \"a\xEF\xBF\xBD\"\nseed = 3\n");
}

std::string problem_of(const std::string& toml) {
  try {
    from_toml(toml, "r.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(FromToml, ReadsWhatToTomlWrote) {
  const nlohmann::json object = {{"output", "has#hash.onnx"},
                                 {"model", "a\\b\"c'd\n\te = [1, 2]\x01 \u00fc\u2013\U0001F600,"},
                                 {"empty", ""},
                                 {"models", {"a,b", "]", "#", "\\"}},
                                 {"none", nlohmann::json::array()},
                                 {"mean", {0.1, -1e-300, 1.0 / 3}},
                                 {"seed", -7},
                                 {"json", true},
                                 {"text", "true"}};
  EXPECT_EQ(from_toml(to_toml(object), "r.toml"), object);
}

TEST(FromToml, ReadsWhatPeopleWrite) {
  EXPECT_EQ(
      from_toml(
          "# a recipe\r\n\n  \"seed\"=1_000 # many\nlr = +1e-3\nmodel = 'c:\\x'\nlayers = [ # two\n \"a\",\n 'b',\n]",
          "r.toml"),
      (nlohmann::json{{"seed", 1000}, {"lr", 1e-3}, {"model", "c:\\x"}, {"layers", {"a", "b"}}}));
  EXPECT_EQ(from_toml("", "r.toml"), nlohmann::json::object());
}

TEST(FromToml, NamesTheLine) {
  for (const char* bad : {"a", "a =", "a = b", "a = \"b", "a = \"b\\", "a = \"\\x\"", "a = 1 2", "a = [1", "a = [1 2]",
                          "a = [[1]]", "a = 1\na = 2", "[a]", "= 1", "a.b = 1", "a = nan", "a = \"\xff\"", "a = null"})
    EXPECT_EQ(problem_of(std::string("x = 1\n") + bad).find("r.toml: line "), 0U) << bad;
  EXPECT_EQ(problem_of("x = 1\ny = [\n1,\n'a\n]"), "r.toml: line 4: y: the text has no closing quote on its line");
}

struct SomeOptions {
  bool flag = false;
  int64_t count = 3;
  double rate = 0.5;
  std::string kind;
  std::vector<std::string> names = {"x"};
  std::vector<double> mean;
  std::string model = "m";

  void describe(OptionVisitor& options) {
    options.positional("model", model, "");
    options.field("flag", flag, "");
    options.field("count", count, "");
    options.field("rate", rate, "");
    options.field("kind", kind, "", {"a", "b"});
    options.field("names", names, "");
    options.field("mean", mean, "");
  }
};

TEST(JsonReader, SetsWhatIsNamed) {
  SomeOptions options;
  JsonReader reader({{"flag", true}, {"rate", 1}, {"kind", "b"}, {"names", "p,q"}, {"mean", 0.25}}, "r.toml");
  options.describe(reader);
  reader.check_keys();
  EXPECT_TRUE(options.flag);
  EXPECT_EQ(options.count, 3);
  EXPECT_EQ(options.rate, 1);
  EXPECT_EQ(options.kind, "b");
  EXPECT_EQ(options.names, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(options.mean, std::vector<double>{0.25});
  EXPECT_EQ(options.model, "m");
}

TEST(JsonReader, ReadsWhatJsonWriterWrote) {
  SomeOptions options{.flag = true, .count = 7, .names = {"a,b"}, .mean = {1, 2}, .model = "n"};
  JsonWriter before, after;
  options.describe(before);
  SomeOptions read;
  JsonReader reader(before.json(), "r.toml");
  read.describe(reader);
  read.describe(after);
  EXPECT_EQ(after.json(), before.json());
}

TEST(JsonReader, NamesTheSourceAndTheKey) {
  for (const auto& [key, value] : std::map<std::string, nlohmann::json>{{"flag", 1},
                                                                        {"count", 1.5},
                                                                        {"rate", "1"},
                                                                        {"kind", "c"},
                                                                        {"names", {1}},
                                                                        {"mean", {"1"}},
                                                                        {"model", {"m", "n"}},
                                                                        {"unknown", 1}}) {
    SomeOptions options;
    JsonReader reader({{key, value}}, "r.toml");
    try {
      options.describe(reader);
      reader.check_keys();
      ADD_FAILURE() << key;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("r.toml: " + key + ": "), 0U) << error.what();
    }
  }
}

struct ScopedOptions {
  std::string method = "fast";
  std::vector<std::string> files;
  int64_t terms = 3;
  double share = 0.5;
  int64_t deep = 0;

  void describe(OptionVisitor& options) {
    options.field("method", method, "how", {"fast", "slow", "other"});
    options.field("files", files, "what of");
    options.field("terms", terms, "of a slow one");
    options.field("share", share, "of files");
    options.field("deep", deep, "of slow ones without files");
    options.only({"terms"}, {with("method", {"slow", "other"})});
    options.only({"share"}, {with("files", {"!*.onnx"}), with("method", {"other"})});
    options.only({"deep"}, {with("method", {"slow"})});
    options.only({"deep"}, {without("files")});
  }
};

TEST(OptionScopes, RefuseWhatHasNoMeaning) {
  const auto message = [](const ScopedOptions& options) {
    try {
      check_scopes(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.terms = 4}), "`terms`: applies only with `method` slow, other");
  EXPECT_EQ(message({.method = "slow", .terms = 4}), "");
  EXPECT_EQ(message({.share = 1}), "`share`: applies only with `files` other than *.onnx or with `method` other");
  EXPECT_EQ(message({.files = {"a.onnx"}, .share = 1}).substr(0, 8), "`share`:");
  EXPECT_EQ(message({.files = {"a.onnx", "b.pth"}, .share = 1}), "") << "one of several is enough";
  EXPECT_EQ(message({.method = "other", .share = 1}), "") << "one of several conditions is enough";
  EXPECT_EQ(message({.method = "slow", .files = {"a"}, .deep = 1}), "`deep`: applies only without `files`");
  EXPECT_EQ(message({.method = "slow", .deep = 1}), "") << "all scopes hold";
}

}  // namespace
}  // namespace pare
