#include "pare/data/dataset.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "pare/data/cifar.h"
#include "pare/data/coco.h"
#include "pare/data/folder.h"
#include "pare/data/idx.h"
#include "pare/data/picture_table.h"
#include "pare/data/places.h"
#include "pare/data/scenes.h"
#include "pare/data/segmentation.h"
#include "pare/data/voc.h"
#include "pare/data/yolo_boxes.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

// "NAME:DIR" is NAME and DIR, "NAME" is NAME and nothing.
std::pair<std::string, std::string> split_data_name(std::string_view data) {
  const size_t colon = data.find(':');
  if (colon == std::string_view::npos) return {std::string(data), ""};
  if (colon + 1 == data.size()) throw Error(ErrorKind::usage, "data", "\"{}\" names no directory or file", data);
  return {std::string(data.substr(0, colon)), std::string(data.substr(colon + 1))};
}

LabelledImages read_idx_pair(const SplitFiles& files) {
  LabelledImages out{read_idx(files.images[0]), read_idx(files.labels)};
  if (out.images.dim() != 3)
    throw Error(ErrorKind::format, files.images[0].string(), "{} dimensions, expected images, rows, columns",
                out.images.dim());
  if (out.labels.dim() != 1)
    throw Error(ErrorKind::format, files.labels.string(), "{} dimensions, expected one", out.labels.dim());
  out.images = out.images.unsqueeze(1);
  out.labels = out.labels.to(at::kLong);
  return out;
}

Dataset load_known(const KnownDataset& known, const std::string& directory, const DataOptions& options) {
  const auto place = require_place(known, directory, options.split);
  const auto files = *split_files(known, place.directory, options.split);
  Dataset out{.name = known.name, .split = options.split};
  out.classes.assign(known.classes.begin(), known.classes.end());
  out.mean = known.mean;
  out.std = known.std;
  const int64_t label_bytes = known.files == FileLayout::cifar100 ? 2 : 1;
  auto data = files.layout == "idx"      ? read_idx_pair(files)
              : files.layout == "binary" ? read_cifar_binary(files.images, options.limit, label_bytes)
                                         : read_png_packing(files.images, files.labels, options.limit, options.threads);
  out.images = std::move(data.images);
  out.labels = std::move(data.labels);
  return out;
}

PictureOptions picture_options(const DataOptions& options) {
  return {.size = options.picture_size(),
          .fit = options.picture_fit(),
          .channels = options.channels,
          .limit = options.limit,
          .threads = options.threads};
}

// The classes in the order of a network's outputs, where a file says it; else none.
std::vector<std::string> class_map(const fs::path& directory, const DataOptions& options) {
  if (!options.class_map.empty()) return read_class_map(options.class_map);
  if (fs::is_regular_file(directory / "classes.txt")) return read_class_map(directory / "classes.txt");
  return {};
}

Dataset dataset_of(const std::string& name, LabelledPictures pictures, const DataOptions& options) {
  Dataset out{.name = name,
              .images = std::move(pictures.data.images),
              .labels = std::move(pictures.data.labels),
              .classes = std::move(pictures.classes),
              .files = std::move(pictures.files)};
  if (options.size > 0) out.preprocess = to_string(options.picture_fit());
  const bool colour = out.channels() == 3;
  out.mean = colour ? folder_mean : std::vector<double>{0.5};
  out.std = colour ? folder_std : std::vector<double>{0.5};
  return out;
}

Dataset load_folder(const fs::path& directory, const DataOptions& options) {
  const auto [root, divided] = divided_root(directory, options.split);
  if (!fs::is_directory(root)) throw Error(ErrorKind::file, root.string(), "is not a directory");
  if (options.unlabelled && folder_classes(root).empty()) {
    Dataset out = dataset_of("folder", read_unlabelled_folder(root, picture_options(options)), options);
    out.split = divided ? options.split : "all";
    out.unlabelled = true;
    return out;
  }
  std::vector<std::string> map = class_map(directory, options);
  const auto known = [&](const std::string& name) {
    return std::ranges::find(options.known_classes, name) != options.known_classes.end();
  };
  if (map.empty() && std::ranges::all_of(folder_classes(root), known)) map = options.known_classes;
  Dataset out = dataset_of("folder", read_image_folder(root, map, picture_options(options)), options);
  out.split = divided ? options.split : "all";
  out.labels_by_name = true;
  return out;
}

Dataset load_table(const fs::path& file, const DataOptions& options) {
  auto table = read_picture_table(file, options.split, class_map(file.parent_path(), options), options.known_classes,
                                  picture_options(options));
  Dataset out = dataset_of("csv", std::move(table.pictures), options);
  out.split = table.split;
  out.labels_by_name = table.labels_by_name;
  return out;
}

// Every place of masks is a class or void, and there is one for each pixel.
void check_pixels(const Dataset& dataset, const at::Tensor& masks, int64_t classes) {
  const std::vector<int64_t> wanted = {dataset.size(), dataset.height(), dataset.width()};
  if (masks.scalar_type() != at::kByte || masks.sizes() != wanted)
    throw Error(ErrorKind::shape, dataset.name, "masks of {} {}, expected uint8 {}", c10::toString(masks.scalar_type()),
                fmt::join(masks.sizes(), "x"), fmt::join(wanted, "x"));
  if (masks.ge(classes).logical_and(masks.ne(255)).any().item<bool>())
    throw Error(ErrorKind::format, dataset.name, "a mask names a class above {}", classes - 1);
}

void check_boxes(const Dataset& dataset, const at::Tensor& boxes) {
  const auto classes = static_cast<double>(dataset.classes.size());
  if (boxes.size(0) != dataset.size())
    throw Error(ErrorKind::format, dataset.name, "{} images but boxes of {}", dataset.size(), boxes.size(0));
  if (boxes.select(2, static_cast<int64_t>(BoxField::label)).ge(classes).any().item<bool>())
    throw Error(ErrorKind::format, dataset.name, "a box has a class that is not one of {}", dataset.classes.size());
}

void check_labels(const Dataset& dataset) {
  const auto classes = static_cast<int64_t>(dataset.classes.size());
  if (dataset.label_kind() == LabelKind::masks) return check_pixels(dataset, dataset.labels, classes);
  if (dataset.label_kind() == LabelKind::boxes) return check_boxes(dataset, dataset.labels);
  if (dataset.multi_label()) {
    if (dataset.labels.size(1) != classes || dataset.labels.gt(1).any().item<bool>())
      throw Error(ErrorKind::format, dataset.name, "labels of {} for {} classes, expected a 0 or 1 for each",
                  fmt::join(dataset.labels.sizes(), "x"), classes);
    return;
  }
  const auto* labels = dataset.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < dataset.labels.numel(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      throw Error(ErrorKind::format, dataset.name, "label {} of image {} is not one of {} classes", labels[i], i,
                  classes);
}

void fill_channels(std::vector<double>& values, int64_t channels, const char* what) {
  if (values.size() == 1) values.assign(static_cast<size_t>(channels), values[0]);
  if (static_cast<int64_t>(values.size()) != channels)
    throw Error(ErrorKind::usage, what, "{} values for {} channels", values.size(), channels);
  for (const double value : values)
    if (!std::isfinite(value) || (what == std::string("std") && value <= 0))
      throw Error(ErrorKind::usage, what, "{} is not usable", value);
}

}  // namespace

void check_dataset(Dataset& dataset) {
  const auto type = dataset.images.scalar_type();
  if (dataset.images.dim() != 4 || (type != at::kByte && type != at::kFloat))
    throw Error(ErrorKind::shape, dataset.name, "images of {} {}, expected uint8 or float [N, C, H, W]",
                c10::toString(dataset.images.scalar_type()), fmt::join(dataset.images.sizes(), "x"));
  if (dataset.label_kind() == LabelKind::one_class) dataset.labels = dataset.labels.to(at::kLong);
  if (dataset.images.size(0) != dataset.labels.size(0))
    throw Error(ErrorKind::format, dataset.name, "{} images but {} labels", dataset.images.size(0),
                dataset.labels.size(0));
  if (dataset.images.numel() == 0) throw Error(ErrorKind::format, dataset.name, "no images");
  dataset.images = dataset.images.contiguous();
  dataset.labels = dataset.labels.contiguous();
  check_labels(dataset);
  if (dataset.masks.defined()) {
    check_pixels(dataset, dataset.masks, static_cast<int64_t>(dataset.classes.size()) + 1);
    dataset.masks = dataset.masks.contiguous();
  }
  fill_channels(dataset.mean, dataset.channels(), "mean");
  fill_channels(dataset.std, dataset.channels(), "std");
}

ImageFit DataOptions::picture_fit() const {
  if (fit) return *fit;
  // No part may be cut off where it matters what is where.
  const bool whole = data.starts_with("segmentation:") || data.starts_with("coco:") || data.starts_with("yolo:");
  return whole ? ImageFit::stretch : usual_fit(channels, size, picture_size().width);
}

Dataset labelled_by(Dataset data, LabelKind kind) {
  if (data.label_kind() == kind) return data;
  at::Tensor& other = kind == LabelKind::masks ? data.masks : data.boxes;
  if (!other.defined() || (kind != LabelKind::masks && kind != LabelKind::boxes))
    throw Error(ErrorKind::usage, OptionName{"data"}, "{} has no {}", data.name,
                kind == LabelKind::masks ? "masks: expected segmentation:DIR, or voc:DIR and the `split` segmentation"
                                         : "boxes: expected coco:FILE, yolo:DIR, or voc:DIR whose objects have them");
  data.labels = other;
  if (kind == LabelKind::masks) data.classes.insert(data.classes.begin(), "background");
  data.masks = data.boxes = at::Tensor();
  return data;
}

void require_classes(const Dataset& data) {
  const LabelKind kind = data.label_kind();
  if (kind == LabelKind::masks || kind == LabelKind::boxes)
    throw Error(ErrorKind::usage, OptionName{"data"},
                "the labels of {} are {}: nothing is learned from them, expected classes of pictures", data.name,
                kind == LabelKind::masks ? "masks" : "boxes");
}

Dataset samples_at(const Dataset& data, const at::Tensor& places) {
  Dataset result = data;
  result.images = data.images.index_select(0, places);
  result.labels = data.labels.index_select(0, places);
  if (data.masks.defined()) result.masks = data.masks.index_select(0, places);
  if (data.boxes.defined()) result.boxes = data.boxes.index_select(0, places);
  result.files.clear();
  for (int64_t i = 0; !data.files.empty() && i < places.numel(); ++i)
    result.files.push_back(data.files.at(static_cast<size_t>(places[i].item<int64_t>())));
  return result;
}

Dataset load_dataset(const DataOptions& options) {
  const auto [name, directory] = split_data_name(options.data);
  const bool segmentation = options.split == "segmentation" && name == "voc";
  if (options.split != "train" && options.split != "test" && !segmentation)
    throw Error(ErrorKind::usage, "split", "\"{}\" is not train or test (or segmentation of voc:DIR)", options.split);
  if (options.limit < 0) throw Error(ErrorKind::usage, "limit", "{} is negative", options.limit);
  const KnownDataset* known = known_dataset(name);
  Dataset dataset;
  if (known != nullptr)
    dataset = load_known(*known, directory, options);
  else if (name == "folder" && !directory.empty())
    dataset = load_folder(directory, options);
  else if (name == "csv" && !directory.empty())
    dataset = load_table(directory, options);
  else if (name == "voc" && !directory.empty())
    dataset = load_voc(directory, options);
  else if (name == "segmentation" && !directory.empty())
    dataset = load_segmentation(directory, class_map(directory, options), picture_options(options), options.split);
  else if (name == "coco" && !directory.empty())
    dataset = load_coco(directory, class_map(fs::path(directory).parent_path(), options), picture_options(options));
  else if (name == "yolo" && !directory.empty())
    dataset = load_yolo(directory, class_map(directory, options), picture_options(options), options.split);
  else if (name == "scenes")
    dataset = load_scenes(directory, options);
  else
    throw_unknown_dataset(options.data);
  if (!options.mean.empty()) dataset.mean = options.mean;
  if (!options.std.empty()) dataset.std = options.std;
  check_dataset(dataset);
  if (options.limit > 0 && options.limit < dataset.size()) {
    for (at::Tensor* part : {&dataset.images, &dataset.labels, &dataset.masks, &dataset.boxes})
      if (part->defined()) *part = part->slice(0, 0, options.limit).clone();  // lets go of the rest
    if (!dataset.files.empty()) dataset.files.resize(static_cast<size_t>(options.limit));
  }
  return dataset;
}

std::vector<DatasetPlace> list_datasets() {
  std::vector<DatasetPlace> places;
  for (const auto& known : known_datasets()) places.push_back(search_places(known, usual_places(known), ""));
  return places;
}

DatasetPlace find_dataset(std::string_view data) {
  const auto [name, directory] = split_data_name(data);
  const KnownDataset* known = known_dataset(name);
  if (known == nullptr) throw_unknown_dataset(data);
  return require_place(*known, directory, "");
}

}  // namespace pare
