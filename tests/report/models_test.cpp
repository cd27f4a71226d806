// What records of several directories, settings and sizes say of a model, put together.
#include "pare/report/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "pare/report/page.h"

namespace pare {
namespace {

using nlohmann::json;

Record made_record(const json& content) { return {"runs/x/record.json", content}; }

json pruned_in(const char* directory, double accuracy) {
  return {{"command", "prune"},
          {"directory", directory},
          {"options", {{"model", "a.onnx"}, {"output", "out/b.onnx"}, {"compensate", "most-sim"}, {"limit", 0}}},
          {"files", {{{"path", "out/b.onnx"}, {"bytes", 2000}}}},
          {"result",
           {{"before", {{"model", "a.onnx"}, {"parameters", 100}}},
            {"after", {{"model", "out/b.onnx"}, {"parameters", 50}, {"metrics", {{"top1", accuracy}}}}}}}};
}

json evaluated(double samples, double accuracy) {
  return {{"command", "eval"},
          {"options", {{"limit", samples}}},
          {"result", {{"samples", samples}, {"models", {{{"model", "a.onnx"}, {"metrics", {{"top1", accuracy}}}}}}}}};
}

json timed(int batch, int threads, const char* model, double seconds) {
  return {{"command", "bench"},
          {"result",
           {{"batch", batch}, {"threads", threads}, {"models", {{{"model", model}, {"median_seconds", seconds}}}}}}};
}

json fused_into(const char* output, double ensemble) {
  const json parents = {{{"model", "a.onnx"}}, {{"model", "b.onnx"}}};
  return {{"command", "fuse"},
          {"options", {{"output", output}, {"method", "ot"}}},
          {"result",
           {{"before", {{"models", parents}, {"parameters", 200}, {"metrics", {{"top1", ensemble}}}}},
            {"after", {{"model", output}, {"parameters", 100}}}}}};
}

const ModelSummary& of_file(const std::vector<ModelSummary>& models, const std::string& file) {
  for (const auto& model : models)
    if (model.file == file) return model;
  ADD_FAILURE() << "there is no " << file;
  return models.front();
}

TEST(Models, OfTwoDirectoriesAreTwo) {
  const auto models = summarize({made_record(pruned_in("/one", 0.8)), made_record(pruned_in("/two/", 0.7))});
  ASSERT_EQ(models.size(), 4U);
  const ModelSummary& first = of_file(models, "/one/out/b.onnx");
  const ModelSummary& second = of_file(models, "/two/out/b.onnx");
  EXPECT_EQ(first.accuracy, 0.8);
  EXPECT_EQ(second.accuracy, 0.7);
  EXPECT_EQ(first.from, "/one/a.onnx");
  EXPECT_EQ(second.from, "/two/a.onnx");
  EXPECT_EQ(first.bytes, 2000);
  // As much of the path as tells them apart.
  EXPECT_EQ(first.name, "one/out/b.onnx");
  EXPECT_EQ(of_file(models, "/two/a.onnx").name, "two/a.onnx");
}

TEST(Models, AreTheSameByAnyPath) {
  json bench = timed(1, 1, "/one/out/../out/b.onnx", 0.5);
  bench["directory"] = "/elsewhere";
  const auto models = summarize({made_record(pruned_in("/one", 0.8)), made_record(bench)});
  ASSERT_EQ(models.size(), 2U);
  EXPECT_EQ(of_file(models, "/one/out/b.onnx").latency, 0.5);
  EXPECT_EQ(of_file(models, "/one/out/b.onnx").name, "b.onnx");
}

TEST(Models, EveryFusionHasAnEnsembleOfItsOwn) {
  const auto models = summarize({made_record(fused_into("f.onnx", 0.9)), made_record(fused_into("g.onnx", 0.6))});
  std::vector<double> votes;
  for (const auto& model : models)
    if (model.method == kEnsemble) votes.push_back(model.accuracy);
  EXPECT_EQ(votes, (std::vector<double>{0.9, 0.6}));
}

TEST(Models, AnAccuracyOnFewerImagesReplacesNone) {
  const Record many = made_record(evaluated(10000, 0.9));
  const Record few = made_record(evaluated(100, 0.5));
  EXPECT_EQ(summarize({many, few})[0].accuracy, 0.9);
  EXPECT_EQ(summarize({few, many})[0].accuracy, 0.9);
  EXPECT_EQ(summarize({few, many})[0].samples, 10000);
  EXPECT_EQ(summarize({many, made_record(evaluated(10000, 0.8))})[0].accuracy, 0.8);  // as many: the later one
  // A limit of 0 is all there are.
  json all = evaluated(0, 0.7);
  all["result"]["samples"] = 5000;
  EXPECT_EQ(summarize({made_record(all), many})[0].accuracy, 0.7);
  EXPECT_NE(html_page({few}).find("of 100 images"), std::string::npos);
}

TEST(Models, AModelMadeAnewHasItsNewAccuracy) {
  json less = pruned_in("", 0.6);
  less["options"]["limit"] = 100;
  const auto models = summarize({made_record(pruned_in("", 0.8)), made_record(less)});
  EXPECT_EQ(of_file(models, "out/b.onnx").accuracy, 0.6);
  EXPECT_EQ(of_file(models, "out/b.onnx").samples, 100);
}

TEST(Models, LatenciesAreOfOneSetting) {
  const std::vector<Record> records = {made_record(timed(8, 2, "a.onnx", 0.4)), made_record(timed(1, 1, "a.onnx", 0.1)),
                                       made_record(timed(8, 2, "b.onnx", 0.2)),
                                       made_record(timed(1, 1, "c.onnx", 0.3))};
  EXPECT_EQ(latency_setting(records), "a batch of 1 on 1 thread");
  const auto models = summarize(records);
  EXPECT_EQ(of_file(models, "a.onnx").latency, 0.1);
  EXPECT_TRUE(std::isnan(of_file(models, "b.onnx").latency));
  EXPECT_EQ(of_file(models, "c.onnx").latency, 0.3);
  EXPECT_NE(html_page(records).find("Latency: of a batch of 1 on 1 thread"), std::string::npos);
  EXPECT_EQ(latency_setting({made_record(pruned_in("/one", 0.8))}), "");
}

TEST(Models, AConvertedModelIsAnOriginal) {
  const json convert = {{"command", "convert"},
                        {"directory", "/d"},
                        {"options", {{"model", "x/net.th"}, {"arch", "resnet20"}, {"output", "a.onnx"}}},
                        {"files", {{{"path", "a.onnx"}, {"bytes", 300}}}},
                        {"result", {{"output", "a.onnx"}, {"parameters", 100}, {"macs", 1000}}}};
  const auto models = summarize({made_record(convert), made_record(pruned_in("/d", 0.8))});
  ASSERT_EQ(models.size(), 2U);
  const ModelSummary& converted = of_file(models, "/d/a.onnx");
  EXPECT_EQ(converted.made_by, "convert, net.th");
  EXPECT_EQ(converted.method, "original");
  EXPECT_EQ(converted.from, "");
  EXPECT_EQ(converted.bytes, 300);
  EXPECT_EQ(converted.macs, 1000);
}

TEST(Models, AConvertedModelOfThePageIsOfItsMethod) {
  const json convert = {{"command", "convert"},
                        {"directory", "/d"},
                        {"options", {{"model", "out/b.onnx"}, {"output", "b.safetensors"}}},
                        {"result", {{"output", "b.safetensors"}, {"parameters", 50}}}};
  const auto models = summarize({made_record(pruned_in("/d", 0.8)), made_record(convert)});
  EXPECT_EQ(of_file(models, "/d/b.safetensors").from, "/d/out/b.onnx");
  EXPECT_EQ(of_file(models, "/d/b.safetensors").method, "most-sim");
}

}  // namespace
}  // namespace pare
