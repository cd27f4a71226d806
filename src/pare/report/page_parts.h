// Inside page.cpp: the sections of a page, each the HTML of what the records have for it, empty where that is nothing.
#pragma once

#include <string>
#include <vector>

#include "pare/report/models.h"
#include "pare/report/record.h"

namespace pare {

constexpr size_t kMostCurves = 24;  // of one plot: as many as colours and dashes tell apart

std::string summary_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models);
std::string size_section(const std::vector<ModelSummary>& models);
std::string speed_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models);
// At most `bytes`: those of the latest runs.
std::string layers_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models, size_t bytes);
std::string training_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models);
std::string tables_section(const std::vector<Record>& records);  // of papers, and of tickets
// Objects found by heat maps, and accuracy without the pixels that they name.
std::string attribution_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models);
// Transport plans and heat maps; takes what it embeds from `budget`, in bytes.
std::string pictures_section(const std::vector<Record>& records, const std::vector<ModelSummary>& models,
                             size_t& budget);
std::string recipes_section(const std::vector<Record>& records, size_t bytes);  // at most, of the latest runs

}  // namespace pare
