// The models that records speak of, one line each: what each command knows of a model is put together by its file.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "pare/report/line_plot.h"
#include "pare/report/record.h"

namespace pare {

constexpr const char* kEnsemble = "ensemble";  // the method of models that only vote together

struct ModelSummary {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string file;     // or what it is called, where it was not written
  std::string from;     // the model it was made of; empty for the first ones
  std::string made_by;  // "prune, half of the channels, most-sim"
  std::string method;   // its curve in the plots
  std::string metric;   // what the accuracy is: top1 or map
  double accuracy = kUnknown;
  double parameters = kUnknown;
  double nonzero = kUnknown;  // parameters that are not zero; unknown: all
  double macs = kUnknown;
  double bytes = kUnknown;       // of the file
  double latency = kUnknown;     // seconds of a batch
  double similarity = kUnknown;  // cosine of its attribution maps to those of the model it is compared with

  double size() const { return nonzero == nonzero ? nonzero : parameters; }
};

// In the order in which they appear. What is measured later wins.
std::vector<ModelSummary> summarize(const std::vector<Record>& records);

// Accuracy against parameters, MACs and latency, as far as at least two models have them: a curve a method. Ensembles
// are left out: they are larger than what is made smaller here.
std::vector<LinePlot> size_plots(const std::vector<ModelSummary>& models);

// "most-sim", "ot", "cs": what a command's options say was done.
std::string method_of(const Record& record);

}  // namespace pare
