// What a detector's outputs mean: boxes with scores and classes, in pixels of the picture that it sees.
//
//   final      boxes [n, 4], scores [n] and classes [n] as they are, with or without a batch in front, or one output
//              [n, 6] of box, score and class; nothing is suppressed
//   rows       [N, boxes, 5 + classes]: box, objectness, a score for each class (YOLOv5, 7)
//   columns    [N, 4 + classes, boxes]: box, a score for each class (YOLOv8, 11)
//   grid       as rows, but centres are offsets in the cells of grids, in cells, and extents are logarithms (YOLOX)
//   boxes      boxes [N, n, 4] and scores [N, n, classes] (UltraFace, SSD with boxes made in the graph)
//   anchors    the same as offsets from anchors, [N, n, …] or for each stride a map [N, anchors · …, h, w] (RetinaFace,
//              BlazeFace, SSD)
//
// Pure functions and values; any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pare/evaluate.h"
#include "pare/graph.h"
#include "pare/options.h"

namespace pare {

enum class BoxHead { final, rows, columns, grid, boxes, anchors };
template <>
struct NamesOf<BoxHead> {
  static constexpr std::string_view names[] = {"final", "rows", "columns", "grid", "boxes", "anchors"};
};

// The four numbers of a box.
enum class BoxForm { corners, corners_yx, centre, corner_and_size };
template <>
struct NamesOf<BoxForm> {
  static constexpr std::string_view names[] = {"xyxy", "yxyx", "cxcywh", "xywh"};
};

enum class ScoreForm { probabilities, sigmoid, softmax };
template <>
struct NamesOf<ScoreForm> {
  static constexpr std::string_view names[] = {"probabilities", "sigmoid", "softmax"};
};

// How offsets from an anchor (centre a, extents s, both in pixels) make a box: log: centre a + v₀ d s, extents
// s exp(v₁ d); pixels: centre a + d, extents d.
enum class OffsetForm { log, pixels };
template <>
struct NamesOf<OffsetForm> {
  static constexpr std::string_view names[] = {"log", "pixels"};
};

struct BoxDecoderOptions {
  BoxHead head = BoxHead::rows;
  std::vector<std::string> boxes, scores, labels;  // outputs; empty: told by their extents
  BoxForm form = BoxForm::corners;
  bool relative = false;  // coordinates are fractions of the picture
  ScoreForm score_form = ScoreForm::probabilities;
  bool background = false;   // the first score is of no object
  bool class_first = false;  // maps of scores have the anchors of the first class first
  std::vector<int64_t> strides = {8, 16, 32};
  std::vector<int64_t> anchors;  // of a cell, for each stride
  std::vector<double> sizes;     // of the anchors, in pixels, stride after stride
  double offset = 0.5;           // of the first centre, in strides
  std::vector<double> centre;    // or in pixels: one number
  OffsetForm offsets = OffsetForm::log;
  std::vector<double> variances = {1, 1};
  double least_score = 0.05;  // below this there is no box
  double overlap = 0.45;      // boxes of a class that overlap a better one by more are left out
  int64_t most = 300;         // boxes of a picture

  void describe(OptionVisitor& options);
};

class BoxDecoder {
 public:
  explicit BoxDecoder(BoxDecoderOptions options);

  // float [n, 6] for each picture, the best first: left, top, right, bottom, score, class. Error{shape} where outputs
  // are not what the head has.
  std::vector<at::Tensor> decode(const Graph& graph, const std::vector<at::Tensor>& outputs, int64_t pictures) const;

  const BoxDecoderOptions& options() const { return options_; }

 private:
  BoxDecoderOptions options_;
};

// By a name of box_decoders(), or a file with these options as `key = value` (core/toml.h).
BoxDecoder find_box_decoder(const std::string& name_or_file);

// Places of the boxes [n, 4] that stay, the best first: a box goes where it overlaps a better one of its class by more
// than `overlap`.
std::vector<int64_t> suppressed(const at::Tensor& boxes, const at::Tensor& scores, const at::Tensor& classes,
                                double overlap, int64_t most);

}  // namespace pare
