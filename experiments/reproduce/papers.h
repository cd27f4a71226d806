// The papers whose tables are reproduced. A new one is one file, one line here and one in papers.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/reproduce/reproduce.h"

namespace pare {

struct Paper {
  std::string_view name;
  std::string_view citation;
  void (*reproduce)(Reproduction& table);
};

const std::vector<Paper>& papers();
// One of them, or all of them for "all". Error{usage} for an unknown name.
std::vector<Paper> find_papers(const std::string& name);

void reproduce_merging(Reproduction& table);
void reproduce_fusion(Reproduction& table);
void reproduce_tickets(Reproduction& table);
void reproduce_attribution(Reproduction& table);

}  // namespace pare
