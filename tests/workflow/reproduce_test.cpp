// The frame of the papers' tables: rows are kept, read back, and left out where something is missing.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "pare/core/error.h"
#include "pare/workflow/reproduce/papers.h"

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
