#include "experiments/reproduce/papers.h"

#include "pare/error.h"

namespace pare {

const std::vector<Paper>& papers() {
  static const std::vector<Paper> list = {
      {"merging", "Kim, Kim, Park, Jeon: Neuron Merging: Compensating for Pruned Neurons. NeurIPS 2020",
       reproduce_merging},
      {"fusion", "Singh, Jaggi: Model Fusion via Optimal Transport. NeurIPS 2020", reproduce_fusion},
      {"tickets", "Savarese, Silva, Maire: Winning the Lottery with Continuous Sparsification. NeurIPS 2020",
       reproduce_tickets},
      {"attribution",
       "Park, Yang, Hwang, Yang: Attribution Preservation in Network Compression for Reliable Network Interpretation. "
       "NeurIPS 2020",
       reproduce_attribution},
  };
  return list;
}

std::vector<Paper> find_papers(const std::string& name) {
  if (name == "all") return papers();
  std::vector<std::string> names = {"all"};
  for (const auto& paper : papers()) {
    if (paper.name == name) return {paper};
    names.emplace_back(paper.name);
  }
  throw Error(ErrorKind::usage, name, "is not a paper with tables here; there are {}", fmt::join(names, ", "));
}

}  // namespace pare
