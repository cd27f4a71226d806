// Heads of detectors whose boxes are known beforehand: what is encoded by hand comes out again.
#include "pare/metrics/box_decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "pare/error.h"
#include "support/temporary.h"

namespace pare {
namespace {

Graph detector_of(int64_t height, int64_t width, const std::vector<std::string>& outputs) {
  Graph graph;
  graph.inputs.push_back(
      {.name = "picture", .dtype = at::kFloat, .dims = std::vector<Dim>{{1}, {3}, {height}, {width}}});
  for (const auto& name : outputs) graph.outputs.push_back({.name = name, .dtype = at::kFloat});
  return graph;
}

void expect_rows(const at::Tensor& found, const std::vector<std::vector<double>>& rows) {
  ASSERT_EQ(found.size(0), static_cast<int64_t>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < 6; ++k)
      EXPECT_NEAR(found[static_cast<int64_t>(i)][static_cast<int64_t>(k)].item<double>(), rows[i][k], 1e-3)
          << "row " << i << ", column " << k;
}

TEST(BoxDecoder, Yolo5RowsHaveObjectness) {
  const Graph graph = detector_of(64, 64, {"out"});
  const at::Tensor out = at::tensor({10.f, 20.f, 4.f, 6.f, 0.5f, 0.2f, 0.8f,  //
                                     40.f, 40.f, 8.f, 8.f, 1.f, 0.9f, 0.01f})
                             .view({1, 2, 7});
  expect_rows(find_box_decoder("yolov5").decode(graph, {out}, 1).at(0),
              {{36, 36, 44, 44, 0.9, 0}, {8, 17, 12, 23, 0.4, 1}, {8, 17, 12, 23, 0.1, 0}});
}

TEST(BoxDecoder, Yolo8ColumnsHaveNone) {
  const Graph graph = detector_of(64, 64, {"out"});
  const at::Tensor rows = at::tensor({10.f, 20.f, 4.f, 6.f, 0.01f, 0.8f,   //
                                      10.5f, 20.f, 4.f, 6.f, 0.01f, 0.7f,  // the same again
                                      40.f, 40.f, 8.f, 8.f, 0.9f, 0.01f})
                              .view({1, 3, 6});
  expect_rows(find_box_decoder("yolov8").decode(graph, {rows.transpose(1, 2).contiguous()}, 1).at(0),
              {{36, 36, 44, 44, 0.9, 0}, {8, 17, 12, 23, 0.8, 1}});
}

// A box in cell (row 1, column 2) of the second grid, stride 16.
TEST(BoxDecoder, YoloxCellsAndLogarithms) {
  const Graph graph = detector_of(64, 64, {"out"});
  at::Tensor out = at::zeros({1, 64 + 16 + 4, 6});
  out[0][64 + 4 + 2].copy_(at::tensor({0.25f, 0.5f, std::log(2.f), std::log(0.5f), 0.8f, 0.5f}));
  const double x = (2 + 0.25) * 16, y = (1 + 0.5) * 16;
  expect_rows(find_box_decoder("yolox").decode(graph, {out}, 1).at(0), {{x - 16, y - 4, x + 16, y + 4, 0.4, 0}});
}

TEST(BoxDecoder, UltraFaceHasFractionsAndABackground) {
  const Graph graph = detector_of(48, 64, {"scores", "boxes"});
  const at::Tensor scores = at::tensor({0.1f, 0.9f, 1.f, 0.f}).view({1, 2, 2});
  const at::Tensor boxes = at::tensor({0.25f, 0.25f, 0.5f, 0.75f, 0.f, 0.f, 1.f, 1.f}).view({1, 2, 4});
  expect_rows(find_box_decoder("ultraface").decode(graph, {scores, boxes}, 1).at(0), {{16, 12, 32, 36, 0.9, 0}});
}

// The anchor of 32 pixels in cell (1, 2) of stride 8, by variances of 0.1 and 0.2.
TEST(BoxDecoder, RetinaFaceOffsetsFromAnchors) {
  const Graph graph = detector_of(64, 64, {"loc", "conf", "landmarks"});
  const int64_t anchors = 2 * (64 + 16 + 4), place = 2 * (8 + 2) + 1;
  at::Tensor loc = at::zeros({1, anchors, 4}), conf = at::zeros({1, anchors, 2});
  conf.select(2, 0).fill_(1);
  conf[0][place].copy_(at::tensor({0.25f, 0.75f}));
  loc[0][place].copy_(at::tensor({1.f, -1.f, std::log(2.f) / 0.2f, 0.f}));
  const double x = 2.5 * 8 + 0.1 * 32, y = 1.5 * 8 - 0.1 * 32;
  expect_rows(find_box_decoder("retinaface").decode(graph, {loc, conf, at::zeros({1, anchors, 10})}, 1).at(0),
              {{x - 32, y - 16, x + 32, y + 16, 0.75, 0}});
}

TEST(BoxDecoder, BlazeFaceOffsetsArePixelsInTwoParts) {
  const Graph graph = detector_of(128, 128, {"s1", "s2", "b1", "b2"});
  TemporaryDirectory directory("box_1");
  const auto file = directory.write("blaze.toml", R"(head = "anchors"
score-form = "sigmoid"
strides = [8, 16]
anchors = [2, 6]
offsets = "pixels"
scores = ["s1", "s2"]
boxes = ["b1", "b2"]
)");
  at::Tensor s1 = at::full({1, 512, 1}, -9), s2 = at::full({1, 384, 1}, -9), b1 = at::zeros({1, 512, 16}),
             b2 = at::zeros({1, 384, 16});
  s2[0][6 * (8 * 3 + 5) + 4] = 2;
  b2[0][6 * (8 * 3 + 5) + 4].slice(0, 0, 4).copy_(at::tensor({3.f, -2.f, 20.f, 30.f}));
  const double x = 5.5 * 16 + 3, y = 3.5 * 16 - 2;
  const BoxDecoder decoder = find_box_decoder(file.string());
  expect_rows(decoder.decode(graph, {s1, s2, b1, b2}, 1).at(0),
              {{x - 10, y - 15, x + 10, y + 15, 1 / (1 + std::exp(-2.0)), 0}});
}

// Maps for each stride, the anchors of the first class first: channel class · anchors + anchor.
TEST(BoxDecoder, MapsOfScoresMayHaveTheClassFirst) {
  const BoxDecoder decoder({.head = BoxHead::anchors,
                            .boxes = {"box"},
                            .scores = {"score"},
                            .background = true,
                            .class_first = true,
                            .strides = {32},
                            .anchors = {2},
                            .sizes = {64, 16},
                            .centre = {7.5}});
  const Graph graph = detector_of(64, 96, {"score", "box"});
  at::Tensor score = at::zeros({1, 4, 2, 3}), box = at::zeros({1, 8, 2, 3});
  score[0][3][1][2] = 0.9;  // face, second anchor, row 1, column 2
  expect_rows(decoder.decode(graph, {score, box}, 1).at(0), {{71.5 - 8, 39.5 - 8, 71.5 + 8, 39.5 + 8, 0.9, 0}});
}

TEST(BoxDecoder, FinalBoxesStayAsTheyAre) {
  const Graph three = detector_of(64, 64, {"boxes", "labels", "scores"});
  const at::Tensor boxes = at::tensor({1.f, 2.f, 3.f, 4.f, 1.f, 2.f, 3.f, 4.5f}).view({2, 4});
  const at::Tensor labels = at::tensor({5, 5}, at::kLong), scores = at::tensor({0.3f, 0.6f});
  const std::vector<std::vector<double>> rows = {{1, 2, 3, 4.5, 0.6, 5}, {1, 2, 3, 4, 0.3, 5}};
  expect_rows(find_box_decoder("final").decode(three, {boxes, labels, scores}, 1).at(0), rows);
  expect_rows(
      find_box_decoder("final").decode(three, {boxes.unsqueeze(0), labels.unsqueeze(0), scores.unsqueeze(0)}, 1).at(0),
      rows);
  const at::Tensor one = at::cat({boxes, scores.unsqueeze(1), labels.to(at::kFloat).unsqueeze(1)}, 1);
  expect_rows(find_box_decoder("final").decode(detector_of(64, 64, {"all"}), {one}, 1).at(0), rows);
}

TEST(BoxDecoder, SuppressionKeepsTheBestOfEachClass) {
  const at::Tensor boxes =
      at::tensor({0.f, 0.f, 10.f, 10.f, 1.f, 0.f, 11.f, 10.f, 1.f, 0.f, 11.f, 10.f, 30.f, 0.f, 40.f, 10.f})
          .view({4, 4});
  const at::Tensor scores = at::tensor({0.5f, 0.9f, 0.8f, 0.1f}), classes = at::tensor({0.f, 0.f, 1.f, 0.f});
  EXPECT_EQ(suppressed(boxes, scores, classes, 0.5, 10), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(suppressed(boxes, scores, classes, 0.95, 10), (std::vector<int64_t>{1, 2, 0, 3}));
  EXPECT_EQ(suppressed(boxes, scores, classes, 0.5, 1), (std::vector<int64_t>{1}));
}

TEST(BoxDecoder, SaysWhatIsWrong) {
  EXPECT_THROW(find_box_decoder("yolo99"), Error);
  EXPECT_THROW(BoxDecoder({.head = BoxHead::anchors, .anchors = {1}}), Error);
  const Graph graph = detector_of(64, 64, {"out"});
  EXPECT_THROW(find_box_decoder("yolov5").decode(graph, {at::zeros({1, 3})}, 1), Error);
  EXPECT_THROW(find_box_decoder("ultraface").decode(graph, {at::zeros({1, 3, 5})}, 1), Error);
  TemporaryDirectory directory("box_2");
  EXPECT_THROW(find_box_decoder(directory.write("odd.toml", "haed = \"rows\"\n").string()), Error);
}

}  // namespace
}  // namespace pare
