// What commands write is what report reads.
#include "pare/report/record.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pare {
namespace {

using nlohmann::json;

Record some_record() {
  Record record{.path = "runs/a/record.json", .command = "prune", .command_line = "pare prune a.onnx"};
  record.options = {{"macs", 0.5}};
  record.seed = 7;
  record.started = "2026-11-18T14:00:00.000Z";
  record.seconds = 1.5;
  record.version = "0.2.0";
  record.machine = {.cpu = "Some CPU", .cores = 4, .threads = 2, .kernels = "AVX2", .libtorch = "1.13"};
  record.directory = "/home/me";
  record.files = {{"a.onnx", 1234}};
  record.training = {{.what = "fine-tuning", .run = "runs/b", .split = "train", .chosen_on = "validation"}};
  record.training[0].history = {{.epoch = 1, .step = 10, .loss = 2, .accuracy = 0.5, .rate = 0.1}};
  record.result = {{"after", {{"model", "b.onnx"}}}};
  record.error = "top1 falls";
  return record;
}

TEST(Record, IsReadAsItWasWritten) {
  const json written = to_json(some_record());
  const Record read = parse_record("runs/a/record.json", written.dump());
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.files.at(0).bytes, 1234);
  EXPECT_EQ(read.machine.threads, 2);
  EXPECT_EQ(read.training.at(0).chosen_on, "validation");
  EXPECT_EQ(read.training.at(0).history.at(0).accuracy, 0.5);
  EXPECT_TRUE(std::isnan(read.training.at(0).history.at(0).validation));
  EXPECT_FALSE(to_json(Record{.command = "eval"}).contains("error"));
}

TEST(Record, LeavesOddEntriesOut) {
  json written = to_json(some_record());
  written["files"] = {{{"path", "a"}, {"bytes", "many"}}, {{"path", "b"}, {"bytes", 1e300}}, 3, {{"bytes", 3}}};
  written["machine"] = "fast";
  written["training"] = {{{"history", {{{"epoch", "first"}, {"loss", nullptr}}}}}, 5};
  const Record read = record_from("r", written);
  EXPECT_TRUE(read.files.empty());
  EXPECT_EQ(read.machine.cpu, "");
  ASSERT_EQ(read.training.size(), 2U);
  EXPECT_TRUE(std::isnan(read.training[0].history.at(0).loss));
}

TEST(Record, AModelSaysOnlyWhatIsKnown) {
  const ModelCost cost{.parameters = 10, .macs = 20, .bytes = 40, .inputs = {{1, 3, 160, 320}, {1, 7}}};
  const json written = to_json(model_entry("a.onnx", cost, {{"top1", 0.5}, {"loss", 1.25}}));
  const ModelEntry read = model_entry_from(written);
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.macs, 20);
  EXPECT_EQ(read.macs_at, "1x3x160x320, 1x7");
  EXPECT_EQ(metric_of(read.metrics, "top1"), 0.5);
  EXPECT_EQ(to_json(ModelEntry{.model = "b"}), (json{{"model", "b"}}));
  EXPECT_FALSE(model_entry_from({{"macs", "20"}, {"metrics", {{"top1", "high"}}}}).macs);
}

TEST(Record, AGroupIsReadAsItWasWritten) {
  const PrunedGroup group{
      .name = "conv1", .total = 16, .kept = 8, .reason = "", .compensation = "2 of 8 merged", .loss = 0.25};
  EXPECT_EQ(to_json(pruned_group_from(to_json(group))), to_json(group));
  EXPECT_LT(pruned_group_from({{"kept", "some"}}).kept, 0);
}

}  // namespace
}  // namespace pare
