// Records, what is read from them, and the page that is made of them.
#include "pare/report/page.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/html.h"
#include "pare/report/line_plot.h"
#include "pare/report/models.h"

namespace pare {
namespace {

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Record record_of(const char* text) { return parse_record("runs/a/record.json", text); }

const char* const kPrune = R"({
  "command": "prune", "started": "2026-01-01T00:00:02Z", "version": "0.1.0", "seconds": 1.5,
  "options": {"model": "./a.onnx", "output": "b.onnx", "compensate": "most-sim"},
  "files": [{"path": "b.onnx", "bytes": 2000}],
  "training": [{"what": "fine-tuning", "history": [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}]}],
  "result": {"before": {"model": "./a.onnx", "parameters": 100, "macs": 1000, "metrics": {"top1": 0.9}},
             "after": {"model": "b.onnx", "parameters": 50, "macs": 500, "metrics": {"top1": 0.8}},
             "groups": [{"name": "conv1", "kept": 5, "total": 10}]}})";
const char* const kBench = R"({
  "command": "bench", "options": {}, "started": "2026-01-01T00:00:03Z",
  "result": {"models": [{"model": "a.onnx", "median_seconds": 0.002}, {"model": "b.onnx", "median_seconds": 0.001}]}})";

TEST(Html, EscapesWhateverItIsGiven) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escape_html("ä–"), "ä–");
  EXPECT_EQ(escape_html("a\xFF\x01z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(escape_html("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Html, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("\xFF\xFE\xFD"), "//79");
}

TEST(LinePlot, TicksAreRoundAndSpanTheValues) {
  EXPECT_EQ(round_ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  const auto ticks = round_ticks(0.813, 0.917, 5);
  EXPECT_LE(ticks.front(), 0.813);
  EXPECT_GE(ticks.back(), 0.917);
  EXPECT_EQ(short_number(1234567), "1.23M");
}

TEST(LinePlot, OddValuesLeaveAPicture) {
  const std::string svg =
      to_svg({.title = "<t>", .x = "x", .y = "y", .series = {{"a", {1, NAN, 2}, {1, 2, INFINITY}}, {"b", {}, {}}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(svg.find("<t>"), std::string::npos);
}

TEST(LinePlot, ValuesThatAreAlmostOneLeaveAPicture) {
  for (const double value : {2e16, 1e308, -1e308, 0.0, 1e-300}) {
    const std::string svg =
        to_svg({.title = "t", .x = "x", .y = "y", .series = {{"a", {value, value}, {0.5, 0.6}}, {"b", {0}, {0.5}}}});
    const std::string same = to_svg({.title = "t", .x = "x", .y = "y", .series = {{"a", {value}, {0.5}}}});
    for (const std::string& text : {svg, same}) {
      EXPECT_EQ(text.find("nan"), std::string::npos) << value;
      EXPECT_EQ(text.find("inf"), std::string::npos) << value;
    }
  }
  const auto ticks = round_ticks(2e16, 2e16, 5);
  EXPECT_LT(ticks.front(), ticks.back());
}

TEST(LinePlot, PointsThatBelongToNoLineHaveMarksAlone) {
  const std::string svg =
      to_svg({.title = "t", .x = "x", .y = "y", .series = {{"a", {1, 2}, {1, 2}, false}}, .marks = false});
  EXPECT_EQ(svg.find("class=\"line\""), std::string::npos);
  EXPECT_NE(svg.find("class=\"mark\""), std::string::npos);
}

TEST(LinePlot, LongCurvesHaveNoMarks) {
  const auto marks = [](size_t points, bool wanted) {
    LineSeries series{.name = "a", .x = {}, .y = {}};
    for (size_t i = 0; i < points; ++i) series.x.push_back(static_cast<double>(i)), series.y.push_back(0.5);
    const std::string svg = to_svg({.title = "t", .x = "x", .y = "y", .series = {series}, .marks = wanted});
    size_t count = 0;
    for (size_t at = svg.find("class=\"mark\""); at != std::string::npos; at = svg.find("class=\"mark\"", at + 1))
      ++count;
    return count;
  };
  // Its points, and the one in the legend.
  EXPECT_EQ(marks(40, true), 41U);
  EXPECT_EQ(marks(41, true), 0U);
  EXPECT_EQ(marks(40, false), 0U);
  EXPECT_EQ(marks(1, false), 2U);  // no line to see it by
}

TEST(Models, AreJoinedByTheirFile) {
  const auto models = summarize({record_of(kPrune), record_of(kBench)});
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(models[0].file, "a.onnx");
  EXPECT_EQ(models[0].accuracy, 0.9);
  EXPECT_EQ(models[0].latency, 0.002);
  EXPECT_EQ(models[1].from, "a.onnx");
  EXPECT_EQ(models[1].method, "most-sim");
  EXPECT_EQ(models[1].parameters, 50);
  EXPECT_EQ(models[1].bytes, 2000);
}

TEST(Page, ShowsWhatTheRecordsHave) {
  const std::string page = html_page({record_of(kPrune), record_of(kBench)}, {.title = "A & B"});
  EXPECT_NE(page.find("A &amp; B"), std::string::npos);
  for (const char* part : {"Models", "Accuracy against size", "What is left of each layer", "Training",
                           "class=\"mark\"", "class=\"bar\"", "How to repeat it"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(times(page, "<script"), 1);
  EXPECT_EQ(page.find("http://www.w3.org/2000/svg") == std::string::npos, false);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

TEST(Page, UserStringsAreText) {
  const std::string evil = "<script>alert(1)</script>";
  nlohmann::json content = nlohmann::json::parse(kPrune);
  content["options"]["output"] = evil;
  content["command_line"] = evil;
  content["result"]["after"]["model"] = evil;
  content["result"]["groups"][0]["name"] = evil;
  content["training"][0]["what"] = evil;
  content["machine"]["cpu"] = evil;
  content["directory"] = evil;
  EXPECT_EQ(times(html_page({record_from("r", content)}), "<script"), 1);  // the page's own
  nlohmann::json bench = nlohmann::json::parse(kBench);
  bench["machine"]["cpu"] = bench["result"]["models"][0]["model"] = bench["result"]["onnxruntime"] = evil;
  bench["result"]["notes"] = nlohmann::json::array({evil});
  EXPECT_EQ(times(html_page({record_from("r", bench)}), "<script"), 1);
}

// The policy names the one script by its digest, as a browser computes it of what stands between the tags.
TEST(Page, LetsItsOwnScriptRunAlone) {
  const std::string page = html_page({record_of(kPrune)});
  const size_t begin = page.find("<script>") + 8, end = page.find("</script>");
  ASSERT_LT(begin, end);
  const std::string script = page.substr(begin, end - begin);
  const std::string digits = sha256(std::as_bytes(std::span(script)));
  std::string digest;
  for (size_t i = 0; i < digits.size(); i += 2)
    digest += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("script-src 'sha256-" + base64(digest) + "'"), std::string::npos);
  EXPECT_EQ(script.find("http"), std::string::npos);
  EXPECT_EQ(script.find("eval"), std::string::npos);
}

TEST(Headline, SaysWhatCameOut) {
  EXPECT_EQ(headline({}), "");
  EXPECT_EQ(headline(summarize({record_of(kBench)})), "");
  auto models = summarize({record_of(kPrune)});
  EXPECT_EQ(headline(models), "b.onnx: 50 % fewer parameters, 10.0 points lost (0.8000, before 0.9000).");
  models[0].timings = {{.bench = 1, .latency = 0.003}};
  models[1].timings = {{.bench = 1, .latency = 0.002}};
  models[1].similarity = 0.934;
  EXPECT_EQ(
      headline(models),
      "b.onnx: 1.50 times as fast here, 50 % fewer parameters, 10.0 points lost (0.8000, before 0.9000), looks at "
      "the same places: 0.93.");
  models[0].timings[0].peer_latency = 0.004, models[1].timings[0].peer_latency = 0.008;
  models[1].similarity = 0.3;
  models[1].samples = 100;  // of other images: nothing is said of the difference
  EXPECT_EQ(headline(models),
            "b.onnx: 2.00 times the time in ONNX Runtime, 50 % fewer parameters, looks elsewhere: 0.30.");
}

// Times of two benches were not taken in turns: machines are slower at one time than at another.
TEST(Headline, DividesLatenciesOfOneBench) {
  const auto bench = [](const std::vector<std::pair<std::string, double>>& times) {
    nlohmann::json content = nlohmann::json::parse(kBench);
    content["result"] = {{"batch", times.size()}, {"models", nlohmann::json::array()}};
    for (const auto& [name, seconds] : times)
      content["result"]["models"].push_back(
          {{"model", name}, {"median_seconds", seconds}, {"onnxruntime", {{"median_seconds", seconds / 2}}}});
    return record_from("runs/b/record.json", content);
  };
  const auto said = [](std::vector<Record> records) {
    records.insert(records.begin(), record_of(kPrune));
    return headline(summarize(records));
  };
  const Record both = bench({{"a.onnx", 0.003}, {"b.onnx", 0.002}});
  const Record older = bench({{"a.onnx", 0.008}, {"b.onnx", 0.002}});
  const Record original = bench({{"a.onnx", 0.009}}), pruned = bench({{"b.onnx", 0.001}});
  EXPECT_TRUE(said({both}).starts_with("b.onnx: 1.50 times as fast in ONNX Runtime, "));
  EXPECT_EQ(said({both, original}), said({both}));
  EXPECT_EQ(said({both, pruned, original}), said({both}));
  EXPECT_EQ(said({older, both, original}), said({both}));
  EXPECT_EQ(said({original, pruned}), said({}));
}

TEST(Page, OddEntriesAreLeftOut) {
  for (
      const char* text :
      {R"({"command": "prune"})", R"({"command": "prune", "result": 3, "options": [], "files": {}, "training": 1})",
       R"({"command": "fuse", "result": {"after": {"model": 4}, "before": [], "models": [1, null, "a"], "plans": [2]}})",
       R"({"command": "eval", "result": {"models": [{"model": "a", "metrics": 1, "parameters": "x"}], "groups": [[]]}})",
       R"({"command": "bench", "directory": 3, "result": {"models": {}, "batch": "x", "threads": [], "notes": [{}, null]}})",
       R"({"command": "bench", "directory": "", "result": {"models": [{"model": "/"}, {"model": "a/"}, {"model": "b/a/"}]}})",
       R"({"command": "roar", "result": {"metric": 1, "levels": [null, 1], "curves": [[], {"maps": {}, "points": [3]}]}})",
       R"({"command": "localize", "result": {"models": [{"model": "a", "predicted": [], "cosine": "x"}], "data": 1}})",
       R"({"command": "convert", "options": {"model": "a"}, "result": {"output": "a", "parameters": -1}})"})
    EXPECT_FALSE(html_page({record_of(text)}).empty()) << text;
  for (const char* text : {"", "[]", "3", "{", R"({"command": 1})"}) EXPECT_THROW(record_of(text), Error) << text;
}

TEST(Records, AreNotNestedWithoutEnd) {
  const auto nested = [](size_t levels) {
    return R"({"command": "eval", "result": )" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_NO_THROW(html_page({parse_record("r", nested(63))}));
  for (const size_t levels : {size_t{64}, size_t{100'000}}) {
    try {
      parse_record("r", nested(levels));
      ADD_FAILURE() << levels;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::format);
      EXPECT_NE(error.message().find("nested"), std::string::npos) << error.what();
    }
  }
  // Side by side, and in strings, they are not.
  EXPECT_NO_THROW(record_of((R"({"command": ")" + std::string(1000, '[') + R"(\"{"})").c_str()));
  std::string wide = R"({"command": "eval", "result": [)";
  for (int i = 0; i < 1000; ++i) wide += "[{}], ";
  EXPECT_NO_THROW(record_of((wide + "0]}").c_str()));
}

TEST(Records, AreFoundInDirectories) {
  namespace fs = std::filesystem;
  const fs::path runs = fs::temp_directory_path() / fmt::format("pare-records-{}", ::getpid());
  fs::create_directories(runs / "bench-1");
  fs::create_directories(runs / "prune-1");
  std::ofstream(runs / "bench-1" / kRecordFile) << kBench;
  std::ofstream(runs / "prune-1" / kRecordFile) << kPrune;
  const auto records = read_records({runs.string(), (runs / "bench-1").string(), (runs / ".").string()});
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].command, "prune");  // it was started first
  EXPECT_THROW(read_records({(runs / "none").string()}), Error);
  fs::remove_all(runs);
}

}  // namespace
}  // namespace pare
