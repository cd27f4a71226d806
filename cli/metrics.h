// Metrics as JSON has them: {"top1": 0.9, …}.
#pragma once

#include <nlohmann/json.hpp>

#include "pare/workflow/evaluate.h"

namespace pare::cli {

inline nlohmann::json metrics_json(const MetricList& metrics) {
  nlohmann::json result;
  for (const auto& [name, value] : metrics) result[name] = value;
  return result;
}

}  // namespace pare::cli
