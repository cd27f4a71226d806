#include "pare/layerwise/eliminate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "pare/error.h"
#include "pare/layerwise/pivots.h"

namespace pare {

namespace {

// The rows and columns `index` of G + λ·I.
at::Tensor regular(const at::Tensor& G, double lambda, const at::Tensor& index) {
  const bool all = index.numel() == G.size(0);
  at::Tensor own = all ? G.clone(at::MemoryFormat::Contiguous) : G.index_select(0, index).index_select(1, index);
  own.diagonal().add_(lambda);
  return own;
}

// λ = ρ·mean diagonal of G, with a larger ρ where G + λ·I is singular still, and the Cholesky factor of that.
std::pair<double, at::Tensor> regular_factor(const at::Tensor& G, double ridge) {
  const double scale = std::max(G.diagonal().mean().item<double>(), 1e-30);
  for (double rho = std::max(ridge, 1e-12); rho < 1e3; rho *= 10) {
    const auto [factor, info] = at::linalg_cholesky_ex(regular(G, rho * scale, at::arange(G.size(0))));
    if (info.item<int>() == 0 && at::isfinite(factor.diagonal()).all().item<bool>()) return {rho * scale, factor};
  }
  throw Error(ErrorKind::failed, "eliminate", "the covariance of {} rows holds numbers that are not finite", G.size(0));
}

// One reader on the way: P and W Wᵀ of the channels that are left. Its G and W₀ are the caller's.
class EliminatedReader {
 public:
  EliminatedReader(const EliminationReader& reader, int64_t channels, double ridge)
      : G_(reader.covariance), rows_(reader.rows), index_(at::arange(G_.size(0))) {
    const at::Tensor W = reader.weight.t();
    auto [lambda, factor] = regular_factor(G_, ridge);
    lambda_ = lambda;
    R_ = at::mm(G_, W).add_(W, lambda);
    begin(std::move(factor), W, channels);
  }

  // What it would lose without each of the channels.
  at::Tensor losses() const {
    if (rows_ == 1) return pair_->solved(pair_->diagonal_E(), pair_->diagonal_A()).flatten();
    return pair_->solved(pair_->diagonal_E(), pair_->diagonal_A()).diagonal(0, 1, 2).sum(1);
  }

  void remove(int64_t channel) { pair_->take(channel); }

  // Forgets all but these of `had` channels. What is left is worked out anew, so that rounding does not add up.
  void keep(const std::vector<int64_t>& channels, int64_t had) {
    pair_.reset();
    const at::Tensor first = at::tensor(channels, at::kLong).unsqueeze(1) * rows_;
    const at::Tensor own =
        at::cat({(first + at::arange(rows_)).reshape({-1}), at::arange(had * rows_, index_.numel())});
    index_ = index_.index_select(0, own);
    R_ = R_.index_select(0, own);
    at::Tensor factor = at::linalg_cholesky(regular(G_, lambda_, index_));
    const at::Tensor W = at::cholesky_solve(R_, factor);
    begin(std::move(factor), W, static_cast<int64_t>(channels.size()));
  }

 private:
  void begin(at::Tensor factor, const at::Tensor& W, int64_t channels) {
    at::Tensor P = at::cholesky_inverse(factor).contiguous();
    factor = at::Tensor();
    pair_.emplace(std::move(P), at::mm(W, W.t()), channels, rows_);
  }

  const at::Tensor& G_;
  int64_t rows_;
  double lambda_ = 0;
  at::Tensor index_;  // rows of G that it holds
  at::Tensor R_;      // W = (G + λI)⁻¹ R of these
  std::optional<PivotedPair> pair_;
};

}  // namespace

Elimination eliminate(const std::vector<EliminationReader>& problem, int64_t channels, double ridge, int64_t most) {
  const int64_t end = most < 0 ? channels : std::min(most, channels);
  std::vector<EliminatedReader> readers;
  for (const auto& reader : problem) readers.emplace_back(reader, channels, ridge);
  std::vector<int64_t> names(static_cast<size_t>(channels));  // of the channels that the readers still hold
  for (int64_t i = 0; i < channels; ++i) names[static_cast<size_t>(i)] = i;
  std::vector<bool> gone(names.size(), false);
  Elimination result;
  double error = 0;
  while (static_cast<int64_t>(result.order.size()) < end) {
    at::Tensor losses = at::zeros({static_cast<int64_t>(names.size())}, at::kDouble);
    for (const auto& reader : readers) losses += reader.losses();
    const double* loss = losses.data_ptr<double>();
    int64_t best = -1;
    for (int64_t i = 0; i < losses.numel(); ++i)
      if (!gone[static_cast<size_t>(i)] && (best < 0 || loss[i] < loss[best])) best = i;
    error += std::max(loss[best], 0.0);
    result.order.push_back(names[static_cast<size_t>(best)]);
    result.error.push_back(error);
    for (auto& reader : readers) reader.remove(best);
    gone[static_cast<size_t>(best)] = true;
    const int64_t left = channels - static_cast<int64_t>(result.order.size());
    const bool last = static_cast<int64_t>(result.order.size()) == end;
    if (last || left == 0 || 4 * left > 3 * static_cast<int64_t>(names.size())) continue;
    std::vector<int64_t> still;
    for (size_t i = 0; i < names.size(); ++i)
      if (!gone[i]) still.push_back(static_cast<int64_t>(i));
    for (auto& reader : readers) reader.keep(still, static_cast<int64_t>(names.size()));
    std::vector<int64_t> own;
    for (const int64_t i : still) own.push_back(names[static_cast<size_t>(i)]);
    names = std::move(own);
    gone.assign(names.size(), false);
  }
  return result;
}

}  // namespace pare
