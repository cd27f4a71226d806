#include "pare/layerwise/value_moments.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "pare/data/in_order.h"
#include "pare/layerwise/pieces.h"
#include "pare/run.h"

namespace pare {

namespace {

// Without what only fills a batch.
void keep_real(TensorMap& values, int64_t all, int64_t real) {
  if (real == all) return;
  for (auto& [name, value] : values) value = value.narrow(0, 0, value.size(0) / all * real);
}

}  // namespace

std::vector<RowMoments> value_moments(const Graph& graph, const std::set<std::string>& values, const Samples& samples,
                                      int64_t piece, const RowsOfValues& rows, Observer& observer) {
  const Program program(graph);
  RunOptions run;
  run.taps.assign(values.begin(), values.end());
  std::vector<RowMoments> sums;
  int64_t done = 0;
  const Pieces pieces = pieces_of(graph, samples, piece);
  using Parts = std::vector<RowPart>;
  in_order<Parts>(
      pieces.count(),
      [&](size_t p) {
        const at::NoGradGuard no_grad;
        TensorMap tapped = program.run(pieces.inputs(p), run).tapped;
        keep_real(tapped, pieces.end(p) - pieces.begin(p), pieces.real_in(p));
        Parts parts;
        for (const at::Tensor& own : rows(tapped, pieces.begin(p))) parts.push_back(row_part(own));
        return parts;
      },
      [&](Parts parts) {
        sums.resize(parts.size());
        for (size_t i = 0; i < parts.size(); ++i) add(sums[i], std::move(parts[i]));
        done = std::min(done + pieces.piece, samples.size);
        observer.step("reading layers", done, samples.size);
      });
  for (auto& moments : sums) moments = over_ranks(moments, observer.ranks());
  return sums;
}

}  // namespace pare
