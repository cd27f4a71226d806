// The frame of the papers' tables: rows are kept, read back, and left out where something is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/reproduce/papers.h"
#include "pare/error.h"

namespace pare {
namespace {

class ReproduceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runs_ = std::filesystem::temp_directory_path() / fmt::format("pare-reproduce-{}", ::getpid());
    options_.runs = runs_.string();
  }
  void TearDown() override { std::filesystem::remove_all(runs_); }

  Reproduction table() const { return Reproduction("test", options_, {}); }
  // All rows of a paper, with nothing measured.
  std::vector<TableRow> listed(const std::string& paper) {
    options_.list = true;
    Reproduction rows(paper, options_, {});
    rows.measure_all(find_papers(paper).front().reproduce);
    return rows.done();
  }

  std::filesystem::path runs_;
  ReproduceOptions options_;
};

TEST_F(ReproduceTest, AFinishedRowIsReadBack) {
  int measured = 0;
  for (int i = 0; i < 2; ++i) {
    Reproduction again = table();
    again.row({.table = "t", .what = "w", .published = 0.5}, [&] { return ++measured, 0.75; });
    ASSERT_EQ(again.done().size(), 1U);
    EXPECT_EQ(again.done()[0].ours, 0.75);
    EXPECT_EQ(again.done()[0].difference(), 0.25);
  }
  EXPECT_EQ(measured, 1);
  options_.fresh = true;
  Reproduction fresh = table();
  fresh.row({.table = "t", .what = "w"}, [&] { return ++measured, 0.5; });
  EXPECT_EQ(measured, 2);
  options_ = {.scale = "small", .runs = runs_.string()};
  Reproduction other = table();
  other.row({.table = "t", .what = "w"}, [&] { return ++measured, 0.5; });
  EXPECT_EQ(measured, 3);
}

TEST_F(ReproduceTest, FreshTablesLeaveTheRowsOfOthers) {
  std::map<std::string, int> measured;
  const auto go = [&](const std::string& tables, bool fresh) {
    options_.tables = tables;
    options_.fresh = fresh;
    Reproduction chosen = table();
    for (const char* name : {"small", "large"})
      chosen.row({.table = name, .what = "w"}, [&, name] { return static_cast<double>(++measured[name]); });
  };
  go("", false);
  go("l*", true);
  go("", false);
  EXPECT_EQ(measured["large"], 2);
  EXPECT_EQ(measured["small"], 1);
  go("", true);
  EXPECT_EQ(measured["small"], 2);
}

// After batch norms the authors' program has scales of its own: its figures stand beside those.
TEST_F(ReproduceTest, PublishedMergingIsByTheReleasedScales) {
  size_t rows = 0;
  for (const auto& row : listed("merging")) {
    const bool lenet = row.table.find("LeNet") != std::string::npos;
    if (std::isnan(row.published) || lenet || row.what.find("most-sim") == std::string::npos) continue;
    EXPECT_NE(row.what.find("released program's scales"), std::string::npos) << row.table << ": " << row.what;
    ++rows;
  }
  EXPECT_EQ(rows, 6U + 3U + 6U + 3U + 6U);  // ResNet-20, VGG-16, activations, MobileNetV1, ImageNet
}

TEST_F(ReproduceTest, TablesSayOnHowManyImagesTheyWereMeasured) {
  for (const char* paper : {"merging", "fusion", "tickets", "attribution"})
    for (const auto& row : listed(paper)) {
      // Others are measured on all images there are.
      const bool whole =
          row.table.find("LeNet-300-100") == 0 || row.table.find("published pair") != std::string::npos ||
          row.table.find("ImageNet") != std::string::npos || row.table.find("cifar100") != std::string::npos ||
          row.table.find("PASCAL VOC") != std::string::npos;
      EXPECT_EQ(row.table.find(" test images") == std::string::npos, whole) << paper << ": " << row.table;
    }
}

// Published figures of other networks or other data say so beside ours.
TEST_F(ReproduceTest, WhatPublishedFiguresAreOfIsNoted) {
  const auto part_of = [](const TableRow& row, const char* name) { return row.table.find(name) != std::string::npos; };
  for (const char* scale : {"toy", "small", "full"}) {
    options_.scale = scale;
    const bool full = options_.scale == "full";
    size_t scenes = 0, thin = 0, pairs = 0;
    for (const auto& row : listed("attribution")) {
      if (std::isnan(row.published)) continue;
      const bool inferred = part_of(row, "maps by rap");
      EXPECT_EQ(row.note.find("RAP is inferred") != std::string::npos, inferred) << row.table << ": " << row.note;
      const bool noted =
          row.note.find("published: VGG-16") == 0 && row.note.find("PASCAL VOC 2012") != std::string::npos;
      EXPECT_EQ(noted, part_of(row, "scenes")) << row.table << ": " << row.note;
      scenes += noted ? 1 : 0;
    }
    for (const auto& row : listed("merging")) {
      if (std::isnan(row.published) || !part_of(row, "vgg") || !part_of(row, "CIFAR-10")) continue;
      EXPECT_EQ(row.note, full ? "" : "published: VGG-16 of full width, CIFAR-10") << row.table;
      ++thin;
    }
    for (const auto& row : listed("fusion")) {
      if (std::isnan(row.published) || part_of(row, "vgg11")) continue;
      EXPECT_EQ(row.note, part_of(row, "the published pair") ? "" : "published: the authors' own pair") << row.table;
      ++pairs;
    }
    EXPECT_GT(scenes, 0U);
    EXPECT_GT(thin, 0U);
    EXPECT_GT(pairs, 0U);
  }
}

TEST_F(ReproduceTest, RowsOfVocAreOnRequestBelowFullScale) {
  for (const char* scale : {"toy", "small", "full"}) {
    options_.scale = scale;
    options_.seeds = 2;
    size_t rows = 0, students = 0;
    for (const auto& row : listed("attribution")) {
      if (row.table.find("PASCAL VOC") == std::string::npos) continue;
      EXPECT_EQ(row.on_request, options_.scale != "full") << scale;
      ++rows;
      students += row.table.find("2 seeds") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(students, rows / 2) << scale;
    EXPECT_GT(rows, 0U) << scale;
  }
}

// Every figure that is quoted of the papers has its row, at every scale.
TEST_F(ReproduceTest, EveryPublishedFigureHasARow) {
  struct Published {
    std::string paper, table;  // a part of the table's name
    std::string metric;
    std::vector<double> figures;
  };
  const std::vector<Published> all = {
      {"merging", "LeNet-300-100", "top1", {0.8980, 0.8840, 0.8869, 0.8517, 0.8692, 0.7126, 0.8275, 0.6676,
                                            0.8002, 0.3180, 0.5212, 0.8786, 0.8838, 0.8303, 0.8807, 0.7121,
                                            0.8327, 0.6390, 0.7711, 0.2812, 0.4343, 0.8808, 0.8857, 0.8582,
                                            0.8810, 0.7838, 0.8639, 0.6419, 0.7749, 0.2985, 0.4876}},
      {"merging", "LeNet-5", "top1", {0.1580, 0.8869}},
      {"merging",
       "ResNet-20",
       "top1",
       {0.9173, 0.8457, 0.8827, 0.6957, 0.7905, 0.6104, 0.6992, 0.3955, 0.4557, 0.1475, 0.2190, 0.0868, 0.1223}},
      {"merging", "vgg", "top1", {0.9370, 0.8870, 0.9316, 0.8914, 0.8785, 0.9310}},
      {"merging", "tanh", "top1", {0.6781, 0.8132}},
      {"merging", "softsign", "top1", {0.7698, 0.8718}},
      {"merging", "elu", "top1", {0.7773, 0.8968}},
      {"merging", "selu", "top1", {0.2517, 0.8028}},
      {"merging", "leaky-relu", "top1", {0.9210, 0.9346}},
      {"merging", "hardswish", "top1", {0.8830, 0.9172}},
      {"merging", "mobilenetv1", "top1", {0.8790, 0.8452, 0.8584, 0.7734, 0.8074, 0.3939, 0.5588}},
      {"merging", "vgg16_bn.imagenet", "top1", {0.7336, 0.5700, 0.6118, 0.4770, 0.5378, 0.3475, 0.4326}},
      {"merging", "resnet34.imagenet", "top1", {0.7331, 0.6208, 0.6630, 0.4066, 0.5395, 0.1252, 0.3556}},
      {"fusion",
       "published pair",
       "top1",
       {0.9788, 0.7384, 0.9558, 0.9663, 0.9532, 0.9660, 0.9516, 0.9552, 0.9631, 0.9668, 0.9749, 0.9760, 0.766, 0.953,
        0.966}},
      {"fusion", "cifar100", "top1", {0.6270, 0.6632, 0.0402, 0.6429, 0.6699, 0.0085, 0.6455, 0.6728, 0.0100, 0.6505}},
      {"attribution", "PASCAL VOC", "map", {0.9179, 0.8144, 0.8231, 0.8363, 0.8437}},
      {"attribution", "PASCAL VOC", "f1", {0.7844, 0.6271, 0.6316, 0.6494, 0.6627}},
      {"attribution",
       "PASCAL VOC",
       "auc",
       {0.8868, 0.8051, 0.8423, 0.8773, 0.8813, 0.842, 0.763, 0.823, 0.853, 0.796, 0.825, 0.845, 0.809, 0.835}},
      {"attribution",
       "PASCAL VOC",
       "point",
       {0.8016, 0.6918, 0.7919, 0.7991, 0.8014, 0.748, 0.663, 0.712, 0.655, 0.534, 0.641, 0.695, 0.569, 0.657}},
      {"attribution", "scenes", "point", {0.8016, 0.6918, 0.7919, 0.7991, 0.8014, 0.748, 0.663, 0.712}},
      {"tickets", "vgg16-bn", "sparsity", {0.320, 0.975, 0.980, 0.996}},
      {"tickets", "resnet20", "sparsity", {0.318, 0.755, 0.860, 0.893}},
  };
  options_.list = true;
  for (const char* scale : {"toy", "small", "full"}) {
    options_.scale = scale;
    std::map<std::string, std::vector<TableRow>> rows;
    for (const auto& paper : papers()) {
      Reproduction listed(std::string(paper.name), options_, {});
      listed.measure_all(paper.reproduce);
      rows[std::string(paper.name)] = listed.done();
    }
    for (const auto& expected : all)
      for (const double figure : expected.figures)
        EXPECT_TRUE(std::any_of(rows[expected.paper].begin(), rows[expected.paper].end(),
                                [&](const TableRow& row) {
                                  return row.table.find(expected.table) != std::string::npos &&
                                         row.metric == expected.metric && row.published == figure;
                                }))
            << scale << ": " << expected.paper << ", " << expected.table << ", " << expected.metric << " " << figure;
  }
}

TEST_F(ReproduceTest, RowsOfOtherFilesAreOtherRows) {
  int measured = 0;
  for (const char* place : {"folder:a", "folder:b", "folder:a"}) {
    options_.imagenet = place;
    Reproduction again = table();
    again.row({.table = "t", .what = "w"}, [&] { return static_cast<double>(++measured); });
  }
  EXPECT_EQ(measured, 2);
}

TEST_F(ReproduceTest, ARowWithoutItsDataIsLeftOut) {
  Reproduction with = table();
  with.row({.table = "t", .what = "w", .published = 0.5},
           [&]() -> double { return with.checkpoint("no-such-file").empty(); });
  ASSERT_EQ(with.done().size(), 1U);
  EXPECT_TRUE(std::isnan(with.done()[0].ours));
  EXPECT_NE(with.done()[0].note.find("no-such-file"), std::string::npos);
  EXPECT_FALSE(with.done()[0].json().contains("difference"));
  EXPECT_THROW(with.row({.table = "t", .what = "x"},
                        []() -> double { throw Error(ErrorKind::failed, "here", "for another reason"); }),
               Error);
}

TEST_F(ReproduceTest, SeveralFiguresOfOneMeasurement) {
  Reproduction with = table();
  const auto measure = [] { return std::vector<double>{0.1, 0.2}; };
  with.rows({{.table = "t", .what = "w", .metric = "map"}, {.table = "t", .what = "w", .metric = "f1"}}, measure);
  ASSERT_EQ(with.done().size(), 2U);
  EXPECT_EQ(with.done()[1].metric, "f1");
  EXPECT_EQ(with.done()[1].ours, 0.2);
}

TEST_F(ReproduceTest, StandardErrorsAreKeptWithTheRows) {
  int measured = 0;
  for (const bool again : {false, true}) {
    Reproduction with = table();
    const std::vector<TableRow> rows = {{.table = "t", .what = "mean"}, {.table = "t", .what = "single"}};
    with.rows(rows, [&] {
      ++measured;
      return std::vector<SeedMean>{seed_mean({0.1, 0.3}), seed_mean({0.4})};
    });
    ASSERT_EQ(with.done().size(), 2U);
    EXPECT_NEAR(with.done()[0].error, 0.1, 1e-15) << again;
    EXPECT_NEAR(with.done()[0].json().at("error").get<double>(), 0.1, 1e-15);
    EXPECT_TRUE(std::isnan(with.done()[1].error));
    EXPECT_FALSE(with.done()[1].json().contains("error"));
  }
  EXPECT_EQ(measured, 1);
}

TEST_F(ReproduceTest, ProcessesShareTheRowsOfATable) {
  Reproduction first = table();
  Reproduction second = table();  // locks of files tell two of one process apart as they do two processes
  std::vector<std::string> measured;
  bool nested = false;
  const auto paper = [&](Reproduction& table) {
    for (const char* what : {"a", "b", "c"})
      table.row({.table = "t", .what = what}, [&, what] {
        measured.emplace_back(what);
        if (!std::exchange(nested, true))
          second.measure_free([&](Reproduction& other) {
            other.row({.table = "t", .what = "a"}, [&] { return measured.emplace_back("twice"), 0.0; });
            other.row({.table = "t", .what = "b"}, [&] { return measured.emplace_back("other b"), 0.2; });
          });
        return 0.1;
      });
  };
  first.measure_all(paper);
  EXPECT_EQ(measured, (std::vector<std::string>{"a", "other b", "c"}));
  ASSERT_EQ(first.done().size(), 3U);
  EXPECT_EQ(first.done()[1].what, "b");
  EXPECT_EQ(first.done()[1].ours, 0.2);
  EXPECT_EQ(second.done().size(), 1U);
}

TEST_F(ReproduceTest, RowsWhoseNetworkIsTrainedElsewhereComeLast) {
  bool elsewhere = true;
  const Trainer trainer = [&](const Graph& graph, const Dataset&, const TrainingOptions&, const TrainingJob& job) {
    if (elsewhere && job.waits) job.waits();
    return TrainingOutcome{.graph = graph};
  };
  Reproduction with("test", options_, trainer);
  std::vector<std::string> measured;
  with.measure_all([&](Reproduction& table) {
    for (const char* what : {"trained", "awaited", "free"})
      table.row({.table = "t", .what = what}, [&, what] {
        const std::string name = what;
        if (name == "free") elsewhere = false;  // the other process is done by then
        if (name != "free") table.trainer()({}, {}, {}, {.awaited = name == "awaited"});
        measured.push_back(name);
        return 0.5;
      });
  });
  EXPECT_EQ(measured, (std::vector<std::string>{"awaited", "free", "trained"}));
  ASSERT_EQ(with.done().size(), 3U);
  EXPECT_EQ(with.done()[0].what, "trained");
}

// A pair whose first network another process trains: the second is trained at once, not when the first is there.
TEST_F(ReproduceTest, OfSeveralNetworksTheFreeOnesAreTrained) {
  std::vector<uint64_t> asked;
  const Trainer trainer = [&](const Graph& graph, const Dataset&, const TrainingOptions& options,
                              const TrainingJob& job) {
    asked.push_back(options.train.seed);
    if (options.train.seed == 0 && job.waits) job.waits();
    return TrainingOutcome{.graph = graph};
  };
  Reproduction with("test", options_, trainer);
  std::vector<TrainingPlan> pair(2, {.arch = "lenet-300-100", .data = "fashion-mnist", .limit = 4});
  pair[1].seed = 1;
  with.measure_all([&](Reproduction& table) {
    table.row({.table = "t", .what = "pair"}, [&] { return static_cast<double>(table.train_each(pair).size()); });
  });
  if (!with.done().at(0).note.empty()) GTEST_SKIP() << with.done()[0].note;
  EXPECT_EQ(with.done()[0].ours, 2);
  EXPECT_EQ(asked, (std::vector<uint64_t>{0, 1, 0, 1}));
}

TEST_F(ReproduceTest, AFigureThatIsNoneIsKeptAsWell) {
  int measured = 0;
  for (int i = 0; i < 2; ++i) {
    Reproduction again = table();
    again.rows({{.table = "t", .what = "w", .metric = "found"}, {.table = "t", .what = "w", .metric = "epochs"}}, [&] {
      ++measured;
      return std::vector<double>{0.0, kNoFigure};
    });
    EXPECT_TRUE(std::isnan(again.done().at(1).ours));
  }
  EXPECT_EQ(measured, 1);
}

TEST_F(ReproduceTest, TablesAreChosenByName) {
  const auto measured = [&](const std::string& tables) {
    options_.tables = tables;
    Reproduction chosen = table();
    std::string names;
    for (const char* name : {"small", "large"})
      chosen.row({.table = name, .what = "w", .on_request = name == std::string("large")}, [&] {
        names += name;
        return 0.5;
      });
    return std::pair(names, chosen.done().size());
  };
  EXPECT_EQ(measured(""), std::pair(std::string("small"), size_t{2}));
  EXPECT_EQ(measured("l*"), std::pair(std::string("large"), size_t{1}));
  EXPECT_EQ(measured(""), std::pair(std::string(), size_t{2}));  // measured once, it is shown
}

TEST(Papers, AreFoundByName) {
  EXPECT_EQ(find_papers("merging").size(), 1U);
  EXPECT_EQ(find_papers("all").size(), papers().size());
  EXPECT_THROW(find_papers("mergers"), Error);
}

}  // namespace
}  // namespace pare
