// Outputs of a detector to boxes, by what its head is.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "pare/error.h"
#include "pare/metrics/box_decoder.h"

namespace pare {

namespace {

// Height and width of the picture that a network sees.
struct Seen {
  double height = 0, width = 0;
};

Seen picture_of(const Graph& graph) {
  const auto& dims = graph.inputs.at(0).dims;
  if (!dims || dims->size() != 4)
    throw Error(ErrorKind::shape, graph.inputs[0].name, "is no picture, which boxes are found in");
  const size_t first = (*dims)[1].size > 4 && (*dims)[3].size <= 4 && (*dims)[3].size > 0 ? 1 : 2;  // channels last
  return {static_cast<double>((*dims)[first].size), static_cast<double>((*dims)[first + 1].size)};
}

// What was found, of all pictures: boxes [N, n, 4], scores [N, n, classes].
struct Found {
  at::Tensor boxes, scores;
};

class Head {
 public:
  Head(const BoxDecoderOptions& options, const Graph& graph, const std::vector<at::Tensor>& outputs)
      : options_(options), graph_(graph), outputs_(outputs), seen_(picture_of(graph)) {}

  Found found() const {
    switch (options_.head) {
      case BoxHead::columns: return columns();
      case BoxHead::grid: return grid();
      case BoxHead::boxes: return {corners(one_of(options_.boxes, boxes_place())), scores_of(score_rows())};
      case BoxHead::anchors: return from_anchors();
      default: return rows(whole());
    }
  }

  // [n, 6] of one picture, or of each where there is a batch in front.
  std::vector<at::Tensor> final(int64_t pictures) const;

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    std::vector<std::string> found;
    for (size_t i = 0; i < outputs_.size(); ++i)
      found.push_back(fmt::format("{} [{}]", graph_.outputs[i].name, fmt::join(outputs_[i].sizes(), ", ")));
    throw Error(ErrorKind::shape, OptionName{"decoder"}, "expected {}, found the outputs {}", expected,
                fmt::join(found, ", "));
  }

  size_t place_of(const std::string& name) const {
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (graph_.outputs[i].name == name) return i;
    refuse(fmt::format("an output '{}'", name));
  }

  at::Tensor one_of(const std::vector<std::string>& names, size_t otherwise) const {
    return outputs_[names.empty() ? otherwise : place_of(names.front())].to(at::kFloat);
  }

  std::vector<at::Tensor> all_of(const std::vector<std::string>& names, size_t otherwise) const {
    std::vector<at::Tensor> tensors;
    for (const auto& name : names) tensors.push_back(outputs_[place_of(name)].to(at::kFloat));
    if (names.empty()) tensors.push_back(outputs_[otherwise].to(at::kFloat));
    return tensors;
  }

  // The output whose last extent is 4.
  size_t boxes_place() const {
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].dim() >= 2 && outputs_[i].size(-1) == 4 && outputs_[i].is_floating_point()) return i;
    refuse("an output of boxes, [N, n, 4]");
  }

  // The output that has a row for each box too, and the fewest columns.
  size_t scores_place() const {
    const at::Tensor boxes = one_of(options_.boxes, options_.boxes.empty() ? boxes_place() : 0);
    int best = -1;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const bool own = options_.boxes.empty() ? i == boxes_place() : i == place_of(options_.boxes.front());
      if (own || !outputs_[i].is_floating_point() || outputs_[i].dim() < 3 || outputs_[i].size(1) != boxes.size(1))
        continue;
      if (best < 0 || outputs_[i].size(2) < outputs_[static_cast<size_t>(best)].size(2)) best = static_cast<int>(i);
    }
    if (best < 0) refuse("an output of scores, [N, n, classes]");
    return static_cast<size_t>(best);
  }

  at::Tensor score_rows() const { return one_of(options_.scores, options_.scores.empty() ? scores_place() : 0); }

  // The only output that matters, [N, rows, columns].
  at::Tensor whole() const {
    const at::Tensor all = one_of(options_.boxes, 0);
    if (all.dim() != 3) refuse("an output [N, boxes, numbers]");
    return all;
  }

  at::Tensor scores_of(const at::Tensor& rows) const {
    at::Tensor scores = rows;
    if (options_.score_form == ScoreForm::sigmoid) scores = scores.sigmoid();
    if (options_.score_form == ScoreForm::softmax) scores = scores.softmax(2);
    return options_.background ? scores.slice(2, 1) : scores;
  }

  // [N, n, 4] as corners in pixels.
  at::Tensor corners(const at::Tensor& rows) const {
    if (rows.dim() != 3 || rows.size(2) < 4) refuse("boxes [N, n, 4]");
    at::Tensor first = rows.slice(2, 0, 2), second = rows.slice(2, 2, 4);
    if (options_.form == BoxForm::corners_yx) first = first.flip({2}), second = second.flip({2});
    if (options_.form == BoxForm::centre) {
      const at::Tensor half = second / 2;
      second = first + half;
      first = first - half;
    }
    if (options_.form == BoxForm::corner_and_size) second = first + second;
    at::Tensor boxes = at::cat({first, second}, 2);
    if (options_.relative)
      boxes = boxes * at::tensor({seen_.width, seen_.height, seen_.width, seen_.height}, boxes.options());
    return boxes;
  }

  Found rows(const at::Tensor& all) const {
    if (all.size(2) < 6) refuse("rows of a box, objectness and scores");
    at::Tensor objectness = all.slice(2, 4, 5), scores = all.slice(2, 5);
    if (options_.score_form == ScoreForm::sigmoid) objectness = objectness.sigmoid();
    return {corners(all), scores_of(scores) * objectness};
  }

  Found columns() const {
    const at::Tensor all = whole().transpose(1, 2);
    if (all.size(2) < 5) refuse("columns of a box and scores");
    return {corners(all), scores_of(all.slice(2, 4))};
  }

  // Centres of the cells of all strides, [cells, 2], and the stride of each, [cells, 1].
  std::pair<at::Tensor, at::Tensor> cells(const std::vector<int64_t>& anchors, double offset) const {
    std::vector<at::Tensor> centres, strides;
    for (size_t s = 0; s < options_.strides.size(); ++s) {
      const auto stride = static_cast<double>(options_.strides[s]);
      const auto along = [&](double extent) {
        const auto count = static_cast<int64_t>(std::ceil(extent / stride));
        const at::Tensor places = at::arange(count, at::kFloat) * stride;
        return places + (options_.centre.empty() ? offset * stride : options_.centre.front());
      };
      const auto grid = at::meshgrid({along(seen_.height), along(seen_.width)}, "ij");
      const at::Tensor both = at::stack({grid[1].flatten(), grid[0].flatten()}, 1);
      const int64_t each = anchors.empty() ? 1 : anchors[s];
      centres.push_back(both.repeat_interleave(each, 0));
      strides.push_back(at::full({both.size(0) * each, 1}, stride));
    }
    return {at::cat(centres), at::cat(strides)};
  }

  Found grid() const {
    const at::Tensor all = whole();
    const auto [centres, strides] = cells({}, 0);
    if (centres.size(0) != all.size(1))
      refuse(fmt::format("{} boxes of cells with strides {}", centres.size(0), fmt::join(options_.strides, ", ")));
    const at::Tensor made =
        at::cat({all.slice(2, 0, 2) * strides + centres, all.slice(2, 2, 4).exp() * strides, all.slice(2, 4)}, 2);
    return rows(made);
  }

  // [N, cells · anchors, columns] of rows, or of maps [N, anchors · columns, h, w].
  at::Tensor in_rows(const std::vector<at::Tensor>& parts, bool class_first) const {
    std::vector<at::Tensor> rows;
    for (size_t s = 0; s < parts.size(); ++s) {
      const at::Tensor& part = parts[s];
      if (part.dim() == 3) {
        rows.push_back(part);
        continue;
      }
      if (part.dim() != 4 || parts.size() != options_.anchors.size() || part.size(1) % options_.anchors[s] != 0)
        refuse("maps [N, anchors · numbers, h, w], one for each stride");
      const int64_t anchors = options_.anchors[s], numbers = part.size(1) / anchors;
      const at::Tensor maps = part.permute({0, 2, 3, 1});
      const at::Tensor split = class_first ? maps.reshape({part.size(0), -1, numbers, anchors}).transpose(2, 3)
                                           : maps.reshape({part.size(0), -1, anchors, numbers});
      rows.push_back(split.reshape({part.size(0), -1, numbers}));
    }
    return at::cat(rows, 1);
  }

  Found from_anchors() const {
    const at::Tensor offsets =
        in_rows(all_of(options_.boxes, options_.boxes.empty() ? boxes_place() : 0), false).slice(2, 0, 4);
    const at::Tensor scores =
        in_rows(all_of(options_.scores, options_.scores.empty() ? scores_place() : 0), options_.class_first);
    const auto [centres, strides] = cells(options_.anchors, options_.offset);
    if (offsets.size(1) != centres.size(0) || scores.size(1) != centres.size(0))
      refuse(fmt::format("boxes and scores of {} anchors", centres.size(0)));
    const at::Tensor moved = offsets.slice(2, 0, 2), extents = offsets.slice(2, 2, 4);
    at::Tensor centre = moved + centres, size = extents;
    if (options_.offsets == OffsetForm::log) {
      const at::Tensor anchors = sizes();
      centre = moved * options_.variances[0] * anchors + centres;
      size = (extents * options_.variances[1]).exp() * anchors;
    }
    return {at::cat({centre - size / 2, centre + size / 2}, 2), scores_of(scores)};
  }

  // Of each anchor, [cells · anchors, 1].
  at::Tensor sizes() const {
    std::vector<at::Tensor> all;
    size_t first = 0;
    for (size_t s = 0; s < options_.strides.size(); ++s) {
      const auto stride = static_cast<double>(options_.strides[s]);
      const auto count = static_cast<int64_t>(std::ceil(seen_.height / stride) * std::ceil(seen_.width / stride));
      const auto each = static_cast<size_t>(options_.anchors[s]);
      const std::vector<double> own(options_.sizes.begin() + static_cast<int64_t>(first),
                                    options_.sizes.begin() + static_cast<int64_t>(first + each));
      all.push_back(at::tensor(own, at::kFloat).repeat({count}).unsqueeze(1));
      first += each;
    }
    return at::cat(all);
  }

  const BoxDecoderOptions& options_;
  const Graph& graph_;
  const std::vector<at::Tensor>& outputs_;
  Seen seen_;
};

// Of picture i: [n, …] of [N, n, …], or of [n, …] where there is one picture.
at::Tensor of_picture(const at::Tensor& all, int64_t i, int64_t rank) { return all.dim() > rank ? all[i] : all; }

std::vector<at::Tensor> Head::final(int64_t pictures) const {
  std::vector<at::Tensor> found;
  const bool together = outputs_.size() == 1 && options_.boxes.empty();
  for (int64_t i = 0; i < pictures; ++i) {
    at::Tensor boxes, scores, labels;
    if (together) {
      const at::Tensor rows = of_picture(outputs_[0].to(at::kFloat), i, 2);
      if (rows.dim() != 2 || rows.size(1) < 6) refuse("one output [n, 6] of box, score and class, or several");
      boxes = rows.slice(1, 0, 4), scores = rows.select(1, 4), labels = rows.select(1, 5);
    } else {
      const size_t place = options_.boxes.empty() ? boxes_place() : place_of(options_.boxes.front());
      boxes = of_picture(outputs_[place].to(at::kFloat), i, 2);
      // Of the outputs with a number for each box, the integers are classes.
      for (size_t o = 0; o < outputs_.size(); ++o) {
        const at::Tensor own = of_picture(outputs_[o], i, 1);
        if (o == place || own.dim() != 1 || own.size(0) != boxes.size(0)) continue;
        const std::string& name = graph_.outputs[o].name;
        const auto is = [&](const std::vector<std::string>& names, bool otherwise) {
          return names.empty() ? otherwise : names.front() == name;
        };
        if (is(options_.labels, !own.is_floating_point()))
          labels = own.to(at::kFloat);
        else if (is(options_.scores, own.is_floating_point()) && !scores.defined())
          scores = own.to(at::kFloat);
      }
      if (!scores.defined()) refuse("an output of scores, one for each box");
      if (!labels.defined()) labels = at::zeros_like(scores);
    }
    const at::Tensor corner = corners(boxes.unsqueeze(0))[0];
    const at::Tensor sure = (scores >= options_.least_score).nonzero().flatten();
    const at::Tensor rows = at::cat({corner, scores.unsqueeze(1), labels.unsqueeze(1)}, 1).index_select(0, sure);
    const at::Tensor order = std::get<1>(rows.select(1, 4).sort(/*stable=*/true, 0, /*descending=*/true));
    found.push_back(rows.index_select(0, order.slice(0, 0, options_.most)));
  }
  return found;
}

}  // namespace

std::vector<at::Tensor> BoxDecoder::decode(const Graph& graph, const std::vector<at::Tensor>& outputs,
                                           int64_t pictures) const {
  const Head head(options_, graph, outputs);
  if (options_.head == BoxHead::final) return head.final(pictures);
  const auto [boxes, scores] = head.found();
  if (boxes.size(0) != pictures || scores.size(0) != pictures || boxes.size(1) != scores.size(1) || scores.size(2) == 0)
    throw Error(ErrorKind::shape, OptionName{"decoder"}, "boxes {} and scores {} for {} pictures",
                fmt::join(boxes.sizes(), "x"), fmt::join(scores.sizes(), "x"), pictures);
  std::vector<at::Tensor> found;
  for (int64_t i = 0; i < pictures; ++i) {
    const at::Tensor sure = (scores[i] >= options_.least_score).nonzero();  // of box and class
    const at::Tensor own = boxes[i].index_select(0, sure.select(1, 0));
    const at::Tensor score = scores[i].index({sure.select(1, 0), sure.select(1, 1)});
    const at::Tensor label = sure.select(1, 1).to(at::kFloat);
    const at::Tensor kept = at::tensor(suppressed(own, score, label, options_.overlap, options_.most), at::kLong);
    found.push_back(at::cat({own, score.unsqueeze(1), label.unsqueeze(1)}, 1).index_select(0, kept));
  }
  return found;
}

}  // namespace pare
