#include "pare/metrics/box_decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pare/core/file.h"
#include "pare/core/options.h"
#include "pare/core/toml.h"
#include "pare/error.h"

namespace pare {

namespace {

struct NamedDecoder {
  const char* name;
  BoxDecoderOptions options;
};

const std::vector<NamedDecoder>& named_decoders() {
  static const std::vector<NamedDecoder> decoders = {
      {"final", {.head = BoxHead::final}},
      {"yolov5", {.head = BoxHead::rows, .form = BoxForm::centre}},
      {"yolov8", {.head = BoxHead::columns, .form = BoxForm::centre}},
      {"yolox", {.head = BoxHead::grid, .form = BoxForm::centre}},
      {"ultraface", {.head = BoxHead::boxes, .relative = true, .background = true}},
      {"ssd", {.head = BoxHead::boxes, .relative = true, .background = true}},
      {"retinaface",
       {.head = BoxHead::anchors,
        .background = true,
        .anchors = {2, 2, 2},
        .sizes = {16, 32, 64, 128, 256, 512},
        .variances = {0.1, 0.2}}},
      {"blazeface",
       {.head = BoxHead::anchors,
        .score_form = ScoreForm::sigmoid,
        .strides = {8, 16},
        .anchors = {2, 6},
        .offsets = OffsetForm::pixels}},
      {"blazeface-back",
       {.head = BoxHead::anchors,
        .score_form = ScoreForm::sigmoid,
        .strides = {16, 32},
        .anchors = {2, 6},
        .offsets = OffsetForm::pixels}},
  };
  return decoders;
}

[[noreturn]] void refuse(const char* option, const std::string& expected) {
  throw Error(ErrorKind::usage, OptionName{option}, "expected {}", expected);
}

void check_anchors(const BoxDecoderOptions& options) {
  if (options.anchors.size() != options.strides.size())
    refuse("anchors", fmt::format("the anchors of a cell for each of {} strides, found {}", options.strides.size(),
                                  options.anchors.size()));
  int64_t all = 0;
  for (const int64_t count : options.anchors) {
    if (count < 1 || count > 64) refuse("anchors", fmt::format("1 to 64 of a cell, found {}", count));
    all += count;
  }
  if (options.offsets == OffsetForm::log && static_cast<int64_t>(options.sizes.size()) != all)
    refuse("sizes", fmt::format("one for each of {} anchors, found {}", all, options.sizes.size()));
}

}  // namespace

void BoxDecoderOptions::describe(OptionVisitor& visitor) {
  visitor.field("head", head, "what the outputs are");
  visitor.field("boxes", boxes, "names of the outputs that hold boxes (default: told by their extents)");
  visitor.field("scores", scores, "names of the outputs that hold scores");
  visitor.field("labels", labels, "name of the output that holds classes, of a final head");
  visitor.field("form", form, "the four numbers of a box");
  visitor.field("relative", relative, "coordinates are fractions of the picture");
  visitor.field("score-form", score_form, "what makes probabilities of the scores");
  visitor.field("background", background, "the first score is of no object");
  visitor.field("class-first", class_first, "maps of scores have all anchors of the first class first");
  visitor.field("strides", strides, "pixels between cells, in the order of the outputs");
  visitor.field("anchors", anchors, "anchors of a cell, for each stride");
  visitor.field("sizes", sizes, "sizes of the anchors in pixels, stride after stride");
  visitor.field("offset", offset, "centre of the first cell, in strides");
  visitor.field("centre", centre, "or in pixels");
  visitor.field("offsets", offsets, "how offsets from an anchor make a box");
  visitor.field("variances", variances, "factors of the offsets of centres and of extents");
  visitor.field("least-score", least_score, "below this there is no box");
  visitor.field("overlap", overlap, "boxes that overlap a better one of their class by more are left out");
  visitor.field("most", most, "boxes of a picture, at most");
}

BoxDecoder::BoxDecoder(BoxDecoderOptions options) : options_(std::move(options)) {
  const BoxDecoderOptions& o = options_;
  if (o.head == BoxHead::anchors) check_anchors(o);
  if (o.strides.empty() || std::ranges::any_of(o.strides, [](int64_t stride) { return stride < 1; }))
    refuse("strides", "positive numbers");
  if (o.variances.size() != 2) refuse("variances", "two numbers");
  if (o.centre.size() > 1) refuse("centre", "one number");
  if (o.most < 1) refuse("most", "at least 1");
}

std::vector<std::string> box_decoders() {
  std::vector<std::string> names;
  for (const auto& decoder : named_decoders()) names.emplace_back(decoder.name);
  return names;
}

BoxDecoder find_box_decoder(const std::string& name_or_file) {
  for (const auto& decoder : named_decoders())
    if (name_or_file == decoder.name) return BoxDecoder(decoder.options);
  if (!name_or_file.ends_with(".toml") && !std::filesystem::exists(name_or_file))
    throw Error(ErrorKind::usage, OptionName{"decoder"}, "'{}' is neither a TOML file nor one of {}", name_or_file,
                fmt::join(box_decoders(), ", "));
  BoxDecoderOptions options;
  const auto file = MappedFile::open(name_or_file);
  JsonReader reader(from_toml(file->text(), name_or_file), name_or_file);
  options.describe(reader);
  reader.check_keys();
  return BoxDecoder(std::move(options));
}

}  // namespace pare
