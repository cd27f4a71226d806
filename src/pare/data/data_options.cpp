#include "pare/data/data_options.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pare/data/loader.h"
#include "pare/error.h"

namespace pare {

namespace {

const std::vector<std::string> picture_data = {"folder:*", "csv:*", "voc:*", "segmentation:*", "coco:*", "yolo:*"};

}  // namespace

bool DataChoice::has_pictures() const {
  return std::ranges::any_of(picture_data, [&](const std::string& glob) {
    return data.starts_with(std::string_view(glob).substr(0, glob.size() - 1));
  });
}

void DataChoice::describe(OptionVisitor& options, const OptionScope& pictures) {
  options.heading("data");
  options.essential().field(
      "data", data,
      "fashion-mnist, mnist, cifar10, cifar100, scenes, NAME:DIR, folder:DIR, csv:FILE, voc:DIR, segmentation:DIR, "
      "coco:FILE or yolo:DIR");
  options.field("split", split, "part of the data; segmentation: the images of voc:DIR that have masks",
                {"train", "test", "segmentation"});
  options.essential().field(
      "limit", limit,
      "take only so many images, the first ones; of segmentation, coco and yolo evenly spaced (0: all; of "
      "scenes 12,000 train, 1,000 test)");
  describe_pictures(options);
  options.field("class-map", class_map,
                "classes in the order of the model's outputs, one per line (default: classes.txt of the directory, the "
                "model's own)");
  options.field("data-seed", data_seed, "another seed, other scenes");
  const auto also = [&](OptionScope scope) {
    scope.insert(scope.end(), pictures.begin(), pictures.end());
    return scope;
  };
  options.only({"split", "limit"}, {with("data")});
  options.only({"mean", "std"}, also({with("data")}));
  options.only({"size", "preprocess"}, also({with("data", picture_data)}));
  options.only({"class-map"}, {with("data", {"folder:*", "csv:*", "segmentation:*", "coco:*", "yolo:*"})});
  options.only({"data-seed"}, {with("data", {"scenes"})});
}

void DataChoice::describe_pictures(OptionVisitor& options) {
  options.heading("data");
  options.field("mean", mean, "per channel, on the scale 0 to 1; default: the model's, else the data set's");
  options.field("std", std, "likewise");
  options.field("size", size, "make pictures SIZE x SIZE (0: as the model takes them)");
  options.field("preprocess", preprocess,
                "how pictures are made to fit (default: the model's; else stretch where labels are masks or boxes, "
                "imagenet for other colour of 128 pixels a side and more, crop for the rest)",
                image_fit_names());
}

namespace {

nlohmann::json stored_list(const Graph& model, const std::string& key) {
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return nlohmann::json::array();
  auto json = nlohmann::json::parse(found->second, nullptr, false);
  return json.is_array() ? json : nlohmann::json::array();
}

[[noreturn]] void throw_open_size() {
  throw Error(ErrorKind::usage, OptionName{"preprocess"}, "the model takes pictures of any size: say which by `size`");
}

// The extents of an input that takes images; nothing where it does not.
const std::vector<Dim>* image_dims(const Graph& model) {
  if (model.inputs.size() != 1 || !model.inputs[0].dims || model.inputs[0].dims->size() != 4) return nullptr;
  return &*model.inputs[0].dims;
}

}  // namespace

std::vector<double> stored_values(const Graph& model, const std::string& key) {
  std::vector<double> values;
  for (const auto& value : stored_list(model, key))
    if (value.is_number()) values.push_back(value.get<double>());
  return values;
}

std::vector<std::string> stored_classes(const Graph& model) {
  std::vector<std::string> names;
  for (const auto& name : stored_list(model, "pare.classes")) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

std::string stored_preprocess(const Graph& model) {
  const auto found = model.metadata.find("pare.preprocess");
  const auto names = image_fit_names();
  const bool known = found != model.metadata.end() && std::ranges::find(names, found->second) != names.end();
  return known ? found->second : "";
}

std::optional<ImageFit> DataChoice::asked_fit(const Graph& model) const {
  const std::string name = preprocess.empty() ? stored_preprocess(model) : preprocess;
  return name.empty() ? std::nullopt : std::optional(image_fit_of(name));
}

Dataset DataChoice::load(const Graph& model, bool unlabelled) const {
  if (data.empty())
    throw Error(ErrorKind::usage, OptionName{"data"},
                "name the data: fashion-mnist, mnist, cifar10, cifar100, scenes, folder:DIR, csv:FILE, voc:DIR, "
                "segmentation:DIR, coco:FILE or yolo:DIR");
  if (limit < 0) throw Error(ErrorKind::usage, OptionName{"limit"}, "expected 0 or more, found {}", limit);
  DataOptions options{.data = data,
                      .split = split,
                      .limit = limit,
                      .mean = mean,
                      .std = std,
                      .size = size,
                      .fit = asked_fit(model),
                      .unlabelled = unlabelled,
                      .class_map = class_map,
                      .known_classes = stored_classes(model),
                      .seed = static_cast<uint64_t>(data_seed)};
  if (mean.empty()) options.mean = stored_values(model, "pare.mean");
  if (std.empty()) options.std = stored_values(model, "pare.std");
  if (const auto* dims = image_dims(model)) {
    if (size == 0 && (*dims)[2].fixed()) options.size = (*dims)[2].size;
    if (size == 0 && (*dims)[2].fixed() && (*dims)[3].fixed()) options.width = (*dims)[3].size;
    if ((*dims)[1].fixed()) options.channels = (*dims)[1].size;
  }
  if (has_pictures() && !preprocess.empty() && options.size == 0) throw_open_size();
  return load_dataset(options);
}

PictureInput DataChoice::picture_input(const Graph& model, const ValueInfo& input, const ImageExtents& stored) const {
  if (!input.dims || input.dims->size() != 4)
    throw Error(ErrorKind::shape, input.name, "the model's input is not an image [N, C, H, W]");
  const auto extent = [&](size_t i, int64_t open) { return (*input.dims)[i].fixed() ? (*input.dims)[i].size : open; };
  PictureInput result{.channels = extent(1, 3)};
  if (result.channels != 1 && result.channels != 3)
    throw Error(ErrorKind::shape, input.name, "the model takes {} channels, an image has 1 or 3", result.channels);
  result.size = {extent(2, size > 0 ? size : stored.height), extent(3, size > 0 ? size : stored.width)};
  if (size > 0 && (result.size.height != size || result.size.width != size))
    throw Error(ErrorKind::usage, OptionName{"size"}, "the model takes images of {} x {}, not of {}",
                result.size.height, result.size.width, size);
  // Pictures of an input that takes any size stay as they are.
  const bool open = size == 0 && !((*input.dims)[2].fixed() && (*input.dims)[3].fixed());
  if (open && !preprocess.empty()) throw_open_size();
  const auto fit = open ? std::optional(ImageFit::stretch) : asked_fit(model);
  result.fit = fit ? *fit : usual_fit(result.channels, result.size.height, result.size.width);
  const auto chosen = [&](const std::vector<double>& asked, const std::string& key, const std::vector<double>& rgb) {
    std::vector<double> values = asked.empty() ? stored_values(model, key) : asked;
    if (values.empty()) values = result.channels == 3 ? rgb : std::vector<double>{0.5};
    return values;
  };
  Dataset one{.name = "images",
              .images = at::zeros({1, result.channels, 1, 1}, at::kByte),
              .labels = at::zeros({1}, at::kLong),
              .classes = {"unknown"},
              .mean = chosen(mean, "pare.mean", folder_mean),
              .std = chosen(std, "pare.std", folder_std)};
  check_dataset(one);  // fills mean and std up
  result.mean = one.mean;
  result.std = one.std;
  return result;
}

at::Tensor PictureInput::bytes(const at::Tensor& picture) const {
  return fit_image(in_channels(picture, channels), size, fit).contiguous();
}

at::Tensor PictureInput::normalized(const at::Tensor& bytes) const {
  at::Tensor images = at::empty(bytes.sizes(), at::kFloat);
  normalize_bytes(bytes.contiguous(), mean, std, images);
  return images;
}

void DataChoice::keep_asked(Graph& model) const {
  const auto* dims = image_dims(model);
  const auto keep = [&](const char* key, std::vector<double> values) {
    if (values.size() == 1 && dims != nullptr && (*dims)[1].fixed())  // one for all channels
      values.resize(static_cast<size_t>((*dims)[1].size), values[0]);
    if (!values.empty()) model.metadata[key] = nlohmann::json(values).dump();
  };
  keep("pare.mean", mean);
  keep("pare.std", std);
  if (!preprocess.empty()) model.metadata["pare.preprocess"] = preprocess;
}

std::vector<std::string> DataChoice::picture_notes(const Graph& model) const {
  std::vector<std::string> notes;
  const std::string own = stored_preprocess(model);
  const auto* dims = image_dims(model);
  const bool fitted = size > 0 || (dims != nullptr && (*dims)[2].fixed());
  if (fitted && own.empty() && preprocess.empty()) {
    const auto extent = [&](size_t i, int64_t open) {
      return dims != nullptr && (*dims)[i].fixed() ? (*dims)[i].size : open;
    };
    const ImageFit fit =
        DataOptions{.data = data, .size = extent(2, size), .width = extent(3, size), .channels = extent(1, 3)}
            .picture_fit();
    notes.push_back(
        fmt::format("does not say how pictures are made to fit: `preprocess` {} is a guess", to_string(fit)));
  }
  if (!own.empty() && !preprocess.empty() && own != preprocess)
    notes.push_back(fmt::format("learned pictures fitted by {}; here they are by {}", own, preprocess));
  const bool guessed = mean.empty() && std.empty() && stored_values(model, "pare.mean").empty();
  if (guessed && !data.starts_with("voc:"))
    notes.emplace_back("does not say how its images are normalised: ImageNet's `mean` and `std` are a guess");
  return notes;
}

}  // namespace pare
