// The options with which a command names its data.
#pragma once

#include <string>
#include <vector>

#include "pare/core/graph.h"
#include "pare/core/options.h"
#include "pare/data/dataset.h"

namespace pare {

struct DataChoice {
  std::string data;
  std::string split = "test";
  int64_t limit = 0;
  std::vector<double> mean;
  std::vector<double> std;
  int64_t size = 0;
  int64_t data_seed = 0;

  void describe(OptionVisitor& options);
  // The data, normalised as asked, else as the model's metadata says, else as the data set's default.
  Dataset load(const Graph& model) const;
};

// A list of numbers of the model's metadata ("pare.mean", "pare.std"); empty when there is none.
std::vector<double> stored_values(const Graph& model, const std::string& key);

}  // namespace pare
