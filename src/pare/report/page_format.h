// Inside pages: how figures and names are shown.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pare/report/models.h"
#include "pare/report/record.h"

namespace pare {

constexpr const char* kAbsent = "–";

std::string fixed_figure(double value, int digits);  // kAbsent for NaN
std::string grouped_figure(double value);            // 1 234 567
// The figure with its share of another one after it, where they differ.
std::string with_share(const std::string& figure, double value, double whole);

// "<p>3 more curves are left out.</p>"; nothing for none.
std::string left_out_text(size_t count, const char* what);

// Parts in their order, as many of the last ones as fit into `bytes`, and how many are left out.
std::string latest_within(const std::vector<std::string>& parts, size_t bytes, const char* what);

std::string file_name_of(const std::string& path);
// What the page calls the model at a path that a record names: its file name, unless that is another model's too.
std::string shown_name(const std::vector<ModelSummary>& models, const Record& record, const std::string& path);
// "pare 0.1.0, libtorch 1.13.1, Some CPU, 2 threads"
std::string machine_text(const Record& record);

}  // namespace pare
