// Solves transport problems that a script hands over, for bench/transport.py and tests/peers/transport.py.
// Each line of stdin is "KIND COST.npy [A.npy B.npy]" with KIND assignment, exact or sinkhorn:EPSILON:ITERATIONS; each
// line of stdout "SECONDS COST SLACK ITERATIONS", SLACK being the least C − u − v (0 for sinkhorn).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "pare/io/npy.h"
#include "pare/transport/assignment.h"
#include "pare/transport/exact.h"
#include "pare/transport/sinkhorn.h"

int main() {
  using namespace pare;
  at::set_num_threads(1);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind, cost_file, a_file, b_file;
    words >> kind >> cost_file >> a_file >> b_file;
    const at::Tensor C = read_npy(cost_file).to(at::kDouble).contiguous();
    const at::Tensor a = a_file.empty() ? uniform_marginal(C.size(0)) : read_npy(a_file);
    const at::Tensor b = b_file.empty() ? uniform_marginal(C.size(1)) : read_npy(b_file);
    TransportPlan found;
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    double seconds = 0;
    if (kind == "assignment") {
      const Assignment best = solve_assignment(C);
      seconds = elapsed();
      found.cost = best.cost;
      found.u = at::tensor(best.u, at::kDouble);
      found.v = at::tensor(best.v, at::kDouble);
    } else if (kind == "exact") {
      found = solve_transport(C, a, b);
      seconds = elapsed();
    } else {
      SinkhornOptions options;
      std::sscanf(kind.c_str(), "sinkhorn:%lf:%ld", &options.regularization, &options.max_iterations);
      found = sinkhorn(C, a, b, options);
      seconds = elapsed();
    }
    const bool entropic = kind.starts_with("sinkhorn");
    const double slack = entropic ? 0 : (C - found.u.unsqueeze(1) - found.v.unsqueeze(0)).min().item<double>();
    fmt::print("{:.6f} {:.17g} {:.3g} {}\n", seconds, found.cost, slack, found.iterations);
    std::fflush(stdout);
  }
}
