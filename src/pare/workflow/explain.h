// Heat maps of images, of one model or of several side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pare/data/data_options.h"
#include "pare/data/dataset.h"
#include "pare/explain.h"
#include "pare/graph.h"
#include "pare/workflow/maps.h"

namespace pare {

// Some images: as they are shown, and what the model sees of them.
struct ExplainPiece {
  std::vector<at::Tensor> pictures;  // uint8 [1 or 3, H, W], of any size up to 1,024 a side
  at::Tensor images;                 // float32 [N, C, H, W], normalised
};

// What is to be explained. Images are read when their turn comes, so that a long list of photographs fits.
struct ExplainInput {
  std::vector<std::string> names;
  std::function<ExplainPiece(int64_t begin, int64_t end)> read;
  std::vector<int64_t> image;                 // [C, H, W] that the model sees
  std::vector<std::vector<int64_t>> classes;  // to explain, for each image; empty: the top one
  std::vector<std::string> class_names;       // empty where unknown
  std::vector<double> mean, std;              // used
};

// Image files, made to fit as `choice` says of pictures; a model that takes any size is shown that of the first image.
// Classes have the names that the model's metadata gives them. The head of every file is read here: one that is no
// picture is an Error before any is explained.
ExplainInput read_explain_input(const std::vector<std::string>& paths, const Graph& model,
                                const DataChoice& choice = {});
// The first `count` images of a data set; of multi-label data the classes that are present.
ExplainInput make_explain_input(const Dataset& data, int64_t count);

// A class by its number or its name. Error{usage} when there is none.
int64_t find_class(const std::string& text, const std::vector<std::string>& names);

// Another model's map of the same image and class.
struct ComparedMap {
  double score = 0;
  bool zero = false, nan = false;
  MapSimilarity similarity;  // to the model's map
};

struct Explanation {
  size_t image = 0;  // which of the input
  int64_t class_index = 0;
  double score = 0;
  bool zero = false;                         // the map is all zero
  bool nan = false;                          // it holds a NaN
  std::optional<double> conservation_error;  // none where the method has none
  std::vector<ComparedMap> compared;
  at::Tensor picture;  // the image, its heat map, and those of the other models
};

// Hands over one explanation after the other, in the order of the images. Returns the layers that maps were taken at,
// of the model and of each of the others, whose errors have their names.
std::vector<std::string> explain(const Graph& model, const std::vector<std::pair<std::string, Graph>>& others,
                                 const ExplainInput& input, const AttributionOptions& options,
                                 const std::function<void(const Explanation&)>& done);

}  // namespace pare
