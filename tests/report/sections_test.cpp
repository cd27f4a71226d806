// Sections of a page: speed, what models look at, pictures and recipes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "pare/data/image.h"
#include "pare/report/html.h"
#include "pare/report/page.h"
#include "pare/report/page_parts.h"

namespace pare {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::vector<Record> record_with(const json& content) { return {record_from("runs/x/record.json", content)}; }

size_t times_in(const std::string& text, const std::string& part) {
  size_t times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++times;
  return times;
}

json bench_content() {
  return json::parse(R"({"command": "bench", "machine": {"cpu": "Some <CPU>"}, "result": {
    "batch": 8, "threads": 2, "onnxruntime": "1.30.0",
    "notes": ["b.onnx: 90 % of its weights are zero, and that bought nothing", 7, "a <note>"],
    "models": [
      {"model": "x/a.onnx", "median_seconds": 0.002, "p10_seconds": 0.0015, "p90_seconds": 0.0025,
       "images_per_second": 4000, "speed_up": 1, "mac_ratio": 1,
       "onnxruntime": {"median_seconds": 0.004, "p10_seconds": 0.0035, "p90_seconds": 0.0045,
                       "images_per_second": 2000, "speed_up": 1}},
      {"model": "x/b.onnx", "median_seconds": 0.001, "images_per_second": 8000, "speed_up": 2, "mac_ratio": 3.5},
      {"model": "none.onnx", "median_seconds": "fast", "onnxruntime": []}, 3, null, {"median_seconds": 1}]}})");
}

TEST(Speed, EveryRuntimeHasARow) {
  const auto records = record_with(bench_content());
  const std::string html = speed_section(records, summarize(records));
  EXPECT_EQ(times_in(html, "<tr>"), 4U);  // the heading, two of a, one of b: odd entries are left out
  for (const char* part : {"a batch of 8 on 2 threads, Some &lt;CPU&gt;", "ONNX Runtime 1.30.0", "bought nothing",
                           "a &lt;note&gt;", "2.000", "1.500", "4.500", "3.50", "b.onnx"})
    EXPECT_NE(html.find(part), std::string::npos) << part << "\n" << html;
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("none.onnx"), std::string::npos);
  EXPECT_NE(html_page(records).find("<h2>Speed</h2>"), std::string::npos);
}

TEST(Speed, OfNoBenchIsNothing) {
  EXPECT_EQ(speed_section(record_with({{"command", "eval"}, {"result", bench_content()["result"]}}), {}), "");
  EXPECT_EQ(speed_section(record_with({{"command", "bench"}, {"result", {{"models", 3}, {"notes", "x"}}}}), {}), "");
}

TEST(Tables, OursStandsBesideThePublished) {
  const std::string html = tables_section(record_with(json::parse(R"({"command": "reproduce", "result": {"papers": [
    {"citation": "A & B", "rows": [
      {"table": "one", "what": "w", "metric": "f1", "ours": 0.5, "error": 0.0125, "published": 0.25, "difference": 0.25},
      {"table": "one", "what": "v", "metric": "f1", "ours": 0.75, "error": "wide"},
      {"table": "two", "what": "u", "metric": "f1", "note": "left out"}]}]}})")));
  EXPECT_EQ(times_in(html, "<table"), 2U);
  for (const char* part : {"A &amp; B", "0.5000 ± 0.0125", "+0.2500", "0.7500<", "left out"})
    EXPECT_NE(html.find(part), std::string::npos) << part << "\n" << html;
}

TEST(Attribution, RemoveAndRetrainIsACurveAModel) {
  const json roar = json::parse(R"({"command": "roar", "result": {"metric": "f1", "method": "grad-cam",
    "levels": [0.1, 0.5, "x"], "whole": {"f1": 0.9},
    "curves": [{"maps": "x/a.onnx", "points": [{"f1": 0.8}, {"f1": 0.4}, {"f1": 0.1}]},
               {"maps": "random", "points": [{"f1": 0.85}, {"top1": 1}]}, {"maps": "<b>", "points": 3}, 7]}})");
  const std::string html = attribution_section(record_with(roar), {});
  // Three points of a, two of random, none of the odd ones; and a mark for each in the legend.
  EXPECT_EQ(times_in(html, "class=\"mark\""), 5U + 2U) << html;
  EXPECT_NE(html.find("a.onnx: 0.5, 0.4"), std::string::npos);
  EXPECT_NE(html.find("random: 0.1, 0.85"), std::string::npos);
  EXPECT_NE(html.find("part of the pixels removed"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html_page(record_with(roar)).find("What the models look at"), std::string::npos);
}

TEST(Attribution, LocalizationIsATable) {
  const json localize = json::parse(R"({"command": "localize", "result": {"method": "lrp", "data": "voc2007",
    "split": "test", "samples": 1234,
    "models": [{"model": "a.onnx", "predicted": {"auc": 0.91234, "point": 0.75}, "cosine": 1},
               {"model": "<i>", "predicted": {"auc": 0.5, "point": null}, "cosine": 0.625}, {"predicted": 3}, []]}})");
  const std::string html = attribution_section(record_with(localize), {});
  EXPECT_EQ(times_in(html, "<tr>"), 3U);
  for (const char* part : {"0.9123", "0.7500", "0.6250", "&lt;i&gt;", "voc2007", "lrp", "1\u202f234 images"})
    EXPECT_NE(html.find(part), std::string::npos) << part << "\n" << html;
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(attribution_section(record_with({{"command", "localize"}, {"result", {{"models", "x"}}}}), {}), "");
}

// The picture of the record's own directory, not one of the same name where the report is made.
TEST(Pictures, AreThoseOfTheRecordsDirectory) {
  const fs::path here = fs::current_path();
  const fs::path scratch = fs::temp_directory_path() / fmt::format("pare-pictures-{}", ::getpid());
  for (const char* place : {"own", "other"}) fs::create_directories(scratch / place);
  const at::Tensor own = at::full({3, 4, 4}, 10, at::kByte);
  write_png(scratch / "own" / "map.png", own);
  write_png(scratch / "map.png", at::full({3, 4, 4}, 200, at::kByte));
  const json explain = {{"command", "explain"},
                        {"directory", (scratch / "own").string()},
                        {"result", {{"explanations", {{{"image", "i"}, {"file", "map.png"}}}}}}};
  size_t budget = 1'000'000;
  fs::current_path(scratch);
  const std::string html = pictures_section(record_with(explain), {}, budget);
  // A record may come from anywhere: a page made elsewhere does not give away what it names there.
  fs::current_path(scratch / "other");
  const std::string elsewhere = pictures_section(record_with(explain), {}, budget);
  fs::current_path(here);
  fs::remove_all(scratch);
  EXPECT_NE(html.find(base64(encode_png(own))), std::string::npos);
  EXPECT_EQ(elsewhere.find("<img"), std::string::npos);
}

// A record that does not say where its command ran: what lies here under that name is another's.
TEST(Pictures, AreNotThoseOfTheCurrentDirectory) {
  const fs::path here = fs::current_path();
  const fs::path scratch = fs::temp_directory_path() / fmt::format("pare-own-pictures-{}", ::getpid());
  fs::create_directories(scratch / "run");
  write_png(scratch / "map.png", at::full({3, 4, 4}, 200, at::kByte));
  const json explain = {{"command", "explain"},
                        {"result", {{"explanations", {{{"image", "i"}, {"file", "map.png"}}}}}}};
  size_t budget = 1'000'000;
  fs::current_path(scratch);
  const std::string elsewhere = pictures_section({record_from("run/record.json", explain)}, {}, budget);
  const std::string beside = pictures_section({record_from("record.json", explain)}, {}, budget);
  fs::current_path(here);
  fs::remove_all(scratch);
  EXPECT_EQ(elsewhere.find("<img"), std::string::npos);
  EXPECT_NE(elsewhere.find("1 picture was not found"), std::string::npos) << elsewhere;
  EXPECT_NE(beside.find("<img"), std::string::npos);
}

// A run directory that was copied elsewhere has its pictures with it.
TEST(Pictures, GoWithTheRunDirectory) {
  const fs::path scratch = fs::temp_directory_path() / fmt::format("pare-moved-pictures-{}", ::getpid());
  for (const char* place : {"moved/plans", "old/plans"}) fs::create_directories(scratch / place);
  const at::Tensor own = at::full({3, 4, 4}, 10, at::kByte);
  write_png(scratch / "moved/plans/0.png", own);
  write_png(scratch / "old/plans/0.png", at::full({3, 4, 4}, 200, at::kByte));
  const json fuse = {{"command", "fuse"},
                     {"directory", (scratch / "old").string()},
                     {"result", {{"plans", {{{"model", "a"}, {"name", "n"}, {"file", "plans/0.png"}}}}}}};
  size_t budget = 1'000'000;
  const std::string html = pictures_section({record_from(scratch / "moved/record.json", fuse)}, {}, budget);
  fs::remove_all(scratch);
  EXPECT_NE(html.find(base64(encode_png(own))), std::string::npos);
  EXPECT_EQ(html.find("not found"), std::string::npos);
}

// Pictures have what the rest of the page leaves of 2 MB.
TEST(Pictures, TakeNoMoreThanIsLeftOfThePage) {
  const fs::path scratch = fs::temp_directory_path() / fmt::format("pare-page-pictures-{}", ::getpid());
  fs::create_directories(scratch);
  at::manual_seed(1);
  // 120 kB, which packing makes no smaller.
  write_png(scratch / "map.png", at::randint(0, 256, {3, 200, 200}, at::kLong).to(at::kByte));
  json explain = {{"command", "explain"}, {"directory", scratch.string()}};
  for (int i = 0; i < 4; ++i) explain["result"]["explanations"].push_back({{"image", "i"}, {"file", "map.png"}});
  const auto page_beside = [&](size_t bytes) {
    explain["command_line"] = std::string(bytes, 'x');
    return html_page({record_from(scratch / "record.json", explain)});
  };
  const std::string small = page_beside(10);
  EXPECT_EQ(times_in(small, "<img"), 4U);
  EXPECT_LT(small.find("<h2>Pictures</h2>"), small.find("<h2>How to repeat it</h2>"));
  const std::string large = page_beside(1'500'000);
  EXPECT_EQ(times_in(large, "<img"), 2U);
  EXPECT_NE(large.find("2 more pictures"), std::string::npos);
  EXPECT_LT(large.size(), 2'000'000U);
  EXPECT_LT(large.find("<h2>Pictures</h2>"), large.find("<h2>How to repeat it</h2>"));
  // What does not fit at all is not there.
  const std::string beyond = page_beside(1'950'000);
  EXPECT_EQ(times_in(beyond, "<img"), 4U);
  EXPECT_NE(beyond.find("1 more earlier run is left out."), std::string::npos);
  EXPECT_LT(beyond.size(), 2'000'000U);
  fs::remove_all(scratch);
}

TEST(Page, SaysWhatIsLeftOut) {
  json train = {{"command", "train"}, {"options", {{"output", "a.onnx"}}}};
  for (int i = 0; i < 26; ++i) {
    train["training"].push_back({{"what", std::to_string(i)}, {"history", {{{"epoch", 1}, {"loss", 2.0}}}}});
    if (i == 23) {
      EXPECT_EQ(training_section(record_with(train), {}).find("left out"), std::string::npos);
    }
  }
  EXPECT_NE(training_section(record_with(train), {}).find("2 more curves are left out."), std::string::npos);

  json roar = {{"command", "roar"}, {"result", {{"metric", "f1"}, {"levels", {0.5}}}}};
  for (int i = 0; i < 25; ++i)
    roar["result"]["curves"].push_back({{"maps", std::to_string(i)}, {"points", {{{"f1", 0.5}}}}});
  EXPECT_NE(attribution_section(record_with(roar), {}).find("1 more curve is left out."), std::string::npos);

  // Alike as far as bars are drawn, and not beyond.
  const auto cut = [](const char* output, int kept) {
    json prune = {{"command", "prune"}, {"options", {{"output", output}}}};
    for (int i = 0; i < 203; ++i)
      prune["result"]["groups"].push_back({{"name", "g"}, {"kept", i < 202 ? 1 : kept}, {"total", 9}});
    return record_from("r", prune);
  };
  const std::string layers = layers_section({cut("a.onnx", 1), cut("b.onnx", 1), cut("c.onnx", 2)}, {}, 1'000'000);
  EXPECT_EQ(times_in(layers, "<svg"), 2U);
  EXPECT_EQ(times_in(layers, "class=\"bar\""), 400U);
  EXPECT_EQ(times_in(layers, "3 more bars are left out."), 2U);
}

TEST(Recipes, SayWhereTheyRan) {
  const json content = {{"command", "prune"}, {"directory", "/home/<me>/x"}, {"command_line", "pare prune a.onnx"}};
  EXPECT_NE(recipes_section(record_with(content), 10'000).find("In /home/&lt;me&gt;/x"), std::string::npos);
  EXPECT_EQ(recipes_section(record_with({{"command", "prune"}}), 10'000).find("In "), std::string::npos);
}

TEST(Recipes, SayThatARunFailed) {
  const json content = {{"command", "verify"}, {"error", "b.onnx: output <y> differs"}};
  const std::string html = recipes_section(record_with(content), 10'000);
  EXPECT_NE(html.find("verify, failed</summary>"), std::string::npos) << html;
  EXPECT_NE(html.find("output &lt;y&gt; differs"), std::string::npos);
}

// Many runs: the latest are shown, in their order, and the page stays below 2 MB.
TEST(Page, OfManyRunsIsBelowTwoMegabytes) {
  std::vector<Record> records;
  for (int r = 0; r < 300; ++r) {
    json prune = {{"command", "prune"},
                  {"command_line", fmt::format("run {} {}", r, std::string(4000, 'x'))},
                  {"options", {{"output", fmt::format("{}.onnx", r)}}}};
    for (int g = 0; g < 50; ++g)
      prune["result"]["groups"].push_back(
          {{"name", fmt::format("features.{}.weight", g)}, {"kept", 1 + (r + g) % 400}, {"total", 512}});
    records.push_back(record_from(fmt::format("runs/{}/record.json", r), prune));
  }
  const std::string page = html_page(records);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_NE(page.find("<h3>299.onnx</h3>"), std::string::npos);
  EXPECT_EQ(page.find("<h3>0.onnx</h3>"), std::string::npos);
  EXPECT_NE(page.find("earlier charts are left out."), std::string::npos);
  EXPECT_NE(page.find("<pre>run 299 "), std::string::npos);
  EXPECT_LT(page.find("<pre>run 298 "), page.find("<pre>run 299 "));
}

TEST(Training, OfARunWithoutOutputIsNamedByItsCommand) {
  const json tickets = {{"command", "tickets"},
                        {"directory", "/some/where"},
                        {"training", {{{"what", "training mlpnet"}, {"history", {{{"epoch", 1}, {"loss", 2.0}}}}}}}};
  EXPECT_NE(training_section(record_with(tickets), {}).find(">tickets: training mlpnet<"), std::string::npos);
}

TEST(Tables, TicketsSayOfWhichSearchAndWhichAreChosen) {
  const json ticket = {{"name", "round <1>"}, {"sparsity", 0.8}, {"metric", 0.9}, {"search_epochs", 3}};
  const json search = {{"command", "tickets"},
                       {"options", {{"arch", "mlpnet"}, {"data", "cifar10"}, {"method", "imp"}}},
                       {"result", {{"dense", 0.91}, {"tickets", {ticket, ticket}}, {"best_performing", 1}}}};
  const std::string html = tables_section(record_with(search));
  EXPECT_NE(html.find("<h3>Tickets: mlpnet, cifar10, imp</h3>"), std::string::npos);
  const size_t second = html.rfind("round &lt;1&gt;");
  ASSERT_NE(second, std::string::npos);
  EXPECT_GT(html.find("best performing"), second);
  EXPECT_EQ(html.find("sparsest matching"), std::string::npos);
}

TEST(Page, ModelsOfOneFileNameAreToldApart) {
  const auto pruned = [](const char* directory) {
    return record_from("r", {{"command", "prune"},
                             {"directory", directory},
                             {"options", {{"output", "b.onnx"}}},
                             {"training", {{{"history", {{{"epoch", 1}, {"loss", 2.0}}}}}}},
                             {"result",
                              {{"after", {{"model", "b.onnx"}, {"parameters", 50}}},
                               {"groups", {{{"name", directory}, {"kept", 1}, {"total", 2}}}}}}});
  };
  const std::string page = html_page({pruned("/one"), pruned("/two")});
  EXPECT_NE(page.find("<h3>one/b.onnx</h3>"), std::string::npos);
  EXPECT_NE(page.find(">two/b.onnx</span>"), std::string::npos);
  EXPECT_NE(page.find("two/b.onnx: 1, 2</title>"), std::string::npos);  // of its training
}

}  // namespace
}  // namespace pare
