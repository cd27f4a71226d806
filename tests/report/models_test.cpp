// What records of several directories, settings and sizes say of a model, put together.
#include "pare/report/models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "pare/report/page.h"

namespace pare {
namespace {

using nlohmann::json;

Record made_record(const json& content) { return record_from("runs/x/record.json", content); }

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

json evaluated_on(const char* data, const char* split, double accuracy) {
  json record = evaluated(0, accuracy);
  record["options"]["data"] = data;
  record["result"]["split"] = split;
  return record;
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

// What was measured of the file that is gone is not the new one's.
TEST(Models, AModelMadeAnewHasNothingOfTheOldOne) {
  json first = pruned_in("", 0.8);
  first["result"]["after"].update({{"sparsity_all", 0.5}, {"macs", 1000}, {"attribution_similarity", 0.9}});
  const Record bench = made_record(timed(1, 1, "out/b.onnx", 0.5));
  const auto before = summarize({made_record(first), bench});
  EXPECT_EQ(of_file(before, "out/b.onnx").latency, 0.5);
  EXPECT_EQ(of_file(before, "out/b.onnx").nonzero, 25);
  const auto models = summarize({made_record(first), bench, made_record(pruned_in("", 0.7))});
  ASSERT_EQ(models.size(), 2U);
  const ModelSummary& again = of_file(models, "out/b.onnx");
  EXPECT_EQ(again.accuracy, 0.7);
  EXPECT_EQ(again.parameters, 50);
  for (const double old : {again.latency, again.nonzero, again.macs, again.similarity}) EXPECT_TRUE(std::isnan(old));
  EXPECT_EQ(again.from, "a.onnx");
}

TEST(Models, AnAccuracyOfOtherImagesReplacesNone) {
  const Record test = made_record(evaluated_on("cifar10", "test", 0.9));
  const Record train = made_record(evaluated_on("cifar10", "train", 0.99));
  const Record other = made_record(evaluated_on("cifar100", "test", 0.3));
  for (const Record& second : {train, other}) {
    const auto models = summarize({test, second});
    EXPECT_EQ(models[0].accuracy, 0.9);
    EXPECT_EQ(models[0].data, "cifar10");
    EXPECT_EQ(models[0].split, "test");
  }
  EXPECT_EQ(summarize({test, made_record(evaluated_on("cifar10", "test", 0.8))})[0].accuracy, 0.8);
  // Training images are better than none, and anything better than those.
  EXPECT_EQ(summarize({train})[0].accuracy, 0.99);
  EXPECT_EQ(summarize({train, test})[0].accuracy, 0.9);
  EXPECT_EQ(summarize({train, other})[0].accuracy, 0.3);
  EXPECT_NE(html_page({train}).find("training images"), std::string::npos);
  EXPECT_EQ(html_page({test}).find("training images"), std::string::npos);
}

TEST(Models, PruningMeasuredOnTrainingImages) {
  json prune = pruned_in("", 0.95);
  prune["options"]["data"] = "cifar10";
  prune["options"]["split"] = "train";
  prune["result"]["before"]["metrics"] = {{"top1", 0.99}};
  const auto models = summarize({made_record(evaluated_on("cifar10", "test", 0.9)), made_record(prune)});
  EXPECT_EQ(of_file(models, "a.onnx").accuracy, 0.9);
  EXPECT_EQ(of_file(models, "out/b.onnx").accuracy, 0.95);
  EXPECT_EQ(of_file(models, "out/b.onnx").split, "train");
}

TEST(Models, DataAreNamedWhereTheyDiffer) {
  json other = evaluated_on("cifar100", "test", 0.3);
  const Record first = made_record(evaluated_on("cifar10", "test", 0.9));
  EXPECT_EQ(html_page({first}).find("class=\"soft\">cifar10<"), std::string::npos);
  other["result"]["models"][0]["model"] = "b.onnx";
  const std::string page = html_page({first, made_record(other)});
  EXPECT_NE(page.find("class=\"soft\">cifar10<"), std::string::npos);
  EXPECT_NE(page.find("class=\"soft\">cifar100<"), std::string::npos);
}

TEST(Models, TheEnsembleOfAnEvaluationIsInNoPlot) {
  json eval = {{"command", "eval"}, {"options", {{"limit", 0}}}};
  for (const auto& [name, parameters] : {std::pair("a.onnx", 100), {"b.onnx", 110}, {"ensemble", 210}})
    eval["result"]["models"].push_back(
        {{"model", name}, {"parameters", parameters}, {"macs", parameters}, {"metrics", {{"top1", 0.5}}}});
  const auto models = summarize({made_record(eval)});
  ASSERT_EQ(models.size(), 3U);
  EXPECT_EQ(of_file(models, "ensemble of a.onnx, b.onnx").method, kEnsemble);
  EXPECT_EQ(of_file(models, "ensemble of a.onnx, b.onnx").accuracy, 0.5);
  const auto plots = size_plots(models);
  ASSERT_EQ(plots.size(), 2U);
  for (const auto& plot : plots) {
    ASSERT_EQ(plot.series.size(), 1U);
    EXPECT_EQ(plot.series[0].x, (std::vector<double>{100, 110}));
  }
}

TEST(Models, OtherModelsAreAnotherEnsemble) {
  const auto voting = [](const char* first, const char* second, double accuracy) {
    json eval = {{"command", "eval"}, {"directory", "/d"}, {"options", {{"limit", 0}}}};
    for (const std::string name : {first, second, kEnsemble})
      eval["result"]["models"].push_back({{"model", name}, {"metrics", {{"top1", accuracy}}}});
    return made_record(eval);
  };
  const auto models = summarize({voting("a.onnx", "b.onnx", 0.7), voting("x/c.onnx", "x/d.onnx", 0.6)});
  ASSERT_EQ(models.size(), 6U);
  EXPECT_EQ(of_file(models, "/d/ensemble of a.onnx, b.onnx").accuracy, 0.7);
  EXPECT_EQ(of_file(models, "/d/x/ensemble of c.onnx, d.onnx").accuracy, 0.6);
  EXPECT_EQ(of_file(models, "/d/x/ensemble of c.onnx, d.onnx").name, "ensemble of c.onnx, d.onnx");
}

// Data that is not divided: what learned from it is measured on what it learned.
TEST(Models, ImagesThatWereLearnedAreTrainingImages) {
  json train = {{"command", "train"},
                {"options", {{"data", "folder:seen"}, {"arch", "lenet-5"}}},
                {"training", {{{"what", "lenet-5"}}}},
                {"result", {{"output", "a.onnx"}, {"split", "all"}, {"metrics", {{"top1", 0.99}}}}}};
  const Record eval = made_record(evaluated_on("folder:heldout", "all", 0.8));
  EXPECT_EQ(of_file(summarize({made_record(train)}), "a.onnx").split, "train");
  const auto models = summarize({made_record(train), eval});
  EXPECT_EQ(of_file(models, "a.onnx").accuracy, 0.8);
  EXPECT_EQ(of_file(models, "a.onnx").data, "folder:heldout");
  EXPECT_EQ(of_file(models, "a.onnx").split, "all");
}

TEST(Models, MethodsAreCalledByWhatTheyDid) {
  const auto method = [](const json& options) {
    return method_of(made_record({{"command", "prune"}, {"options", options}}));
  };
  EXPECT_EQ(method({{"compensate", "most-sim"}, {"empty", false}, {"as-published", false}}), "most-sim");
  EXPECT_EQ(method({{"compensate", "most-sim"}, {"as-published", true}}), "most-sim as published");
  EXPECT_EQ(method({{"compensate", "calibrated"}, {"as-published", true}}), "calibrated");
  EXPECT_EQ(method({{"compensate", "most-sim"}, {"empty", true}}), "empty channels");
}

// What was made of one network is not joined to what was made of another.
TEST(Models, EveryNetworkHasItsOwnCurves) {
  json one = pruned_in("/one", 0.8);
  json two = pruned_in("/two", 0.6);
  one["result"]["before"]["metrics"] = {{"top1", 0.9}};
  two["result"]["before"].update({{"parameters", 200}, {"metrics", {{"top1", 0.7}}}});
  const auto series_of = [](const std::vector<Record>& records) {
    std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> curves;
    const auto plots = size_plots(summarize(records));
    for (const auto& series : plots.at(0).series) curves[series.name] = {series.x, series.y};
    return curves;
  };
  using Values = std::vector<double>;
  const auto both = series_of({made_record(one), made_record(two)});
  ASSERT_EQ(both.size(), 3U);
  EXPECT_EQ(both.at("one/a.onnx, most-sim"), std::pair(Values({50, 100}), Values({0.8, 0.9})));
  EXPECT_EQ(both.at("two/a.onnx, most-sim"), std::pair(Values({50, 200}), Values({0.6, 0.7})));
  EXPECT_EQ(both.at("original"), std::pair(Values({100, 200}), Values({0.9, 0.7})));
  // Of one network, the method says it.
  const auto single = series_of({made_record(one)});
  EXPECT_EQ(single.at("most-sim").first, Values({50, 100}));
  EXPECT_EQ(single.size(), 2U);
}

// A plot has accuracies of one kind, on one data set; networks that have nothing to do with each other are points.
TEST(Models, EveryDataSetAndMetricHasAPlot) {
  json eval = {{"command", "eval"}, {"options", {{"limit", 0}, {"data", "cifar10"}}}};
  for (const char* name : {"a.onnx", "b.onnx"})
    eval["result"]["models"].push_back({{"model", name}, {"parameters", 100}, {"metrics", {{"top1", 0.5}}}});
  json scenes = {{"command", "eval"}, {"options", {{"limit", 0}, {"data", "scenes"}}}};
  for (const char* name : {"c.onnx", "d.onnx"})
    scenes["result"]["models"].push_back({{"model", name}, {"parameters", 9}, {"metrics", {{"map", 0.9}}}});
  const auto plots = size_plots(summarize({made_record(eval), made_record(scenes)}));
  ASSERT_EQ(plots.size(), 2U);
  EXPECT_EQ(plots[0].title, "Accuracy against parameters that are not zero, cifar10");
  EXPECT_EQ(plots[1].title, "Accuracy against parameters that are not zero, scenes");
  EXPECT_EQ(plots[1].y, "mean average precision");
  for (const auto& plot : plots) {
    ASSERT_EQ(plot.series.size(), 1U);
    EXPECT_EQ(plot.series[0].x.size(), 2U);
    EXPECT_FALSE(plot.series[0].line);
  }
}

// The first model of a comparison is compared with itself; another one's maps are not the original's.
TEST(Models, SimilarityIsWithTheOriginal) {
  const auto compared = [](const std::vector<std::pair<std::string, double>>& entries) {
    json localize = {{"command", "localize"}, {"directory", "/d"}};
    for (const auto& [name, cosine] : entries)
      localize["result"]["models"].push_back({{"model", name}, {"cosine", cosine}});
    return made_record(localize);
  };
  const Record pruned = made_record(pruned_in("/d", 0.8));
  const auto after = [&](const Record& record) {
    return of_file(summarize({pruned, record}), "/d/out/b.onnx").similarity;
  };
  EXPECT_TRUE(std::isnan(after(compared({{"out/b.onnx", 1}, {"a.onnx", 0.7}}))));
  EXPECT_TRUE(std::isnan(after(compared({{"x.onnx", 1}, {"out/b.onnx", 0.7}}))));
  EXPECT_EQ(after(compared({{"a.onnx", 1}, {"out/b.onnx", 0.7}})), 0.7);
  EXPECT_TRUE(std::isnan(of_file(summarize({pruned, compared({{"a.onnx", 1}})}), "/d/a.onnx").similarity));
}

TEST(Models, ASimilarityOfOtherMapsOrFewerImagesReplacesNone) {
  json prune = pruned_in("/d", 0.8);
  prune["result"]["after"]["attribution_similarity"] = 0.9;
  prune["result"]["attribution_drift"] = {{"images", 256}};
  const auto after = [&](const char* method, int64_t images) {
    json localize = {{"command", "localize"}, {"directory", "/d"}};
    localize["result"] = {{"method", method}, {"samples", images}};
    for (const auto& [name, cosine] : {std::pair("a.onnx", 1.0), {"out/b.onnx", 0.7}})
      localize["result"]["models"].push_back({{"model", name}, {"cosine", cosine}});
    return of_file(summarize({made_record(prune), made_record(localize)}), "/d/out/b.onnx").similarity;
  };
  EXPECT_EQ(after("gradcam", 10), 0.9);
  EXPECT_EQ(after("lrp", 1000), 0.9);
  EXPECT_EQ(after("gradcam", 256), 0.7);
}

TEST(Models, ALatencyOfAnotherBatchIsNotTaken) {
  json bench = timed(8, 1, "a.onnx", 0.4);
  bench["result"]["models"][0]["batch"] = 1;
  EXPECT_TRUE(std::isnan(summarize({made_record(bench)})[0].latency));
  bench["result"]["models"][0]["batch"] = 8;
  EXPECT_EQ(summarize({made_record(bench)})[0].latency, 0.4);
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

json counted(const char* model, double macs, const char* at) {
  json entry = {{"model", model}, {"parameters", 1}, {"macs", macs}};
  if (*at != 0) entry["macs_at"] = at;
  return {{"command", "eval"}, {"result", {{"models", {entry}}}}};
}

// A network for pictures of any size has as many MACs as the size that it is analysed at.
TEST(Models, MacsOfOtherInputsAreNotCompared) {
  const auto page = [](const std::vector<json>& records) {
    std::vector<Record> all = {made_record(pruned_in("", 0.8))};
    for (const auto& record : records) all.push_back(made_record(record));
    return html_page(all);
  };
  const json wide = counted("a.onnx", 1000, "1x3x160x320"), square = counted("a.onnx", 500, "1x3x160x160");
  const json small = counted("out/b.onnx", 400, "1x3x160x160"), unsaid = counted("out/b.onnx", 400, "");
  EXPECT_NE(page({square, small}).find("400 <span class=\"soft\">(80 %)"), std::string::npos);
  EXPECT_NE(page({square, small, wide}).find("400 <span class=\"soft\">(80 %)"), std::string::npos);
  EXPECT_EQ(page({wide, small}).find("400 <span class=\"soft\">("), std::string::npos);
  EXPECT_EQ(page({wide, unsaid}).find("400 <span class=\"soft\">("), std::string::npos);
  EXPECT_EQ(page({counted("a.onnx", 1000, ""), unsaid}).find("400 <span class=\"soft\">("), std::string::npos);
}

TEST(Models, MacsOfARecordAreComparedWithEachOther) {
  json prune = pruned_in("", 0.8);
  prune["result"]["before"]["macs"] = 1000, prune["result"]["after"]["macs"] = 400;
  EXPECT_NE(html_page({made_record(prune)}).find("400 <span class=\"soft\">(40 %)"), std::string::npos);
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
