// The models that records speak of, one line each: what each command knows of a model is put together by its file, in
// the directory in which the command ran.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "pare/report/line_plot.h"
#include "pare/report/record.h"

namespace pare {

constexpr const char* kEnsemble = "ensemble";  // the method of models that only vote together

// What one bench measured of a model: only latencies of the same one, where models take turns, can be divided.
struct ModelTiming {
  size_t bench = 0;  // the number of its record
  double latency = std::numeric_limits<double>::quiet_NaN();
  double peer_latency = std::numeric_limits<double>::quiet_NaN();
};

struct ModelSummary {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string file;     // its key (model_key), or what it is called, where it was not written
  std::string name;     // its file name, with as much of the path before it as tells it from others
  std::string from;     // the key of the model it was made of; empty for the first ones
  std::string made_by;  // "prune, half of the channels, most-sim"
  std::string method;   // its curve in the plots
  std::string metric;   // what the accuracy is: top1 or map
  double accuracy = kUnknown;
  std::string data, split;  // that the accuracy was measured on; empty where the record does not say
  double samples = 0;       // images of it; infinite: all of the split
  double parameters = kUnknown;
  double nonzero = kUnknown;  // parameters that are not zero; unknown: all
  double macs = kUnknown;
  std::string macs_at;                       // the shapes of inputs at which they were counted, or by which record
  std::map<std::string, double> macs_found;  // at each of those
  double bytes = kUnknown;                   // of the file
  double weights = kUnknown;                 // bytes of the weights
  double latency = kUnknown;                 // seconds of a batch, in the setting of latency_setting
  double peer_latency = kUnknown;            // the same in ONNX Runtime
  std::vector<ModelTiming> timings;          // in any setting, the latest last
  double similarity = kUnknown;              // cosine of its Grad-CAM maps to those of the model it was made of
  double compared = 0;                       // images of that

  // Its MACs as they compare with those of another: counted at the same shapes, or unknown.
  double macs_beside(const ModelSummary& other) const;
  double size() const { return nonzero == nonzero ? nonzero : parameters; }
};

// In the order in which they appear. What is measured later wins, but for a similarity on fewer images and an accuracy
// on fewer, on those that a network learns from, or on other data.
std::vector<ModelSummary> summarize(const std::vector<Record>& records);

// The model that a summary's figures are compared with: the one that it was made of, followed back to the first.
const ModelSummary* origin_of(const ModelSummary& model, const std::vector<ModelSummary>& models);

// What came out, in one sentence about the model that was made last and is known best: "small.onnx: 2.1 times as fast
// in ONNX Runtime, 0.4 points lost, looks at the same places: 0.93". Empty where nothing was made of anything.
std::string headline(const std::vector<ModelSummary>& models);

// The file of a path that a record names: from the record's directory on, where it has one.
std::string model_key(const Record& record, const std::string& path);

// "a batch of 8 on 2 threads, Some CPU"; empty for what is no bench.
std::string bench_setting(const Record& record);
// That of the latest bench. Summaries have no latencies of another: they could not be compared.
std::string latency_setting(const std::vector<Record>& records);

// Accuracy against parameters, MACs and latency, where at least two models have them: a plot for each data set and
// metric, a curve per method, and where models go back to several networks one for each of those; the networks
// themselves are points. Ensembles are left out: they are larger than what is made smaller here.
std::vector<LinePlot> size_plots(const std::vector<ModelSummary>& models);

// "most-sim", "ot", "cs": what a command's options say was done.
std::string method_of(const Record& record);

}  // namespace pare
