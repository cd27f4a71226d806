// The options with which a command names its data, and says what becomes of pictures before a network sees them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pare/core/options.h"
#include "pare/data/dataset.h"
#include "pare/graph.h"

namespace pare {

// What a network sees of a picture: its channels and extents, fitted (data/preprocess.h) and normalised.
struct PictureInput {
  int64_t channels = 3;
  PictureSize size;
  ImageFit fit = ImageFit::crop;
  std::vector<double> mean, std;  // one for each channel

  // uint8 [channels, height, width] of a decoded picture; float32 [N, …] of such.
  at::Tensor bytes(const at::Tensor& picture) const;
  at::Tensor normalized(const at::Tensor& bytes) const;
};

struct DataChoice {
  std::string data;
  std::string split = "test";
  int64_t limit = 0;
  std::vector<double> mean;
  std::vector<double> std;
  int64_t size = 0;
  std::string preprocess;  // empty: the model's own, else usual_fit()
  std::string class_map;
  int64_t data_seed = 0;

  // `pictures`: what besides `data` may bring pictures.
  void describe(OptionVisitor& options, const OptionScope& pictures = {});
  void describe_pictures(OptionVisitor& options);  // only what pictures become

  // The data, normalised and fitted as asked, else as the model's metadata says, else as is usual for the data set.
  // `unlabelled`: pictures of a folder without class directories will do.
  Dataset load(const Graph& model, bool unlabelled = false) const;
  // One picture for this input of the model; what the model leaves open is as in `stored`. What load() makes of the
  // same picture in a folder is the same to the bit. Error{shape} for an input that takes no pictures, Error{usage} for
  // a `size` that the model does not take.
  PictureInput picture_input(const Graph& model, const ValueInfo& input, const ImageExtents& stored) const;

  bool has_pictures() const;  // that lie in files and are fitted
  // Into the model's metadata goes what was asked for, so that it is shown the same later.
  void keep_asked(Graph& model) const;
  // What a user should know of the pictures that this model is shown: what is a guess, and what it learned otherwise.
  std::vector<std::string> picture_notes(const Graph& model) const;

 private:
  std::optional<ImageFit> asked_fit(const Graph& model) const;
};

// A list of numbers of the model's metadata ("pare.mean", "pare.std"); empty when there is none.
std::vector<double> stored_values(const Graph& model, const std::string& key);
// The names of its classes that a training left in the model; none unless all of them are names.
std::vector<std::string> stored_classes(const Graph& model);
// How pictures were fitted when it was trained; empty where it does not say.
std::string stored_preprocess(const Graph& model);

}  // namespace pare
