#include "pare/layerwise/eliminate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "pare/error.h"

namespace pare {

namespace {

// G + ρ·mean diagonal·I, with a larger ρ where that is singular still, and its inverse.
std::pair<at::Tensor, at::Tensor> regular_inverse(const at::Tensor& G, double ridge) {
  const double scale = std::max(G.diagonal().mean().item<double>(), 1e-30);
  for (double rho = std::max(ridge, 1e-12); rho < 1e3; rho *= 10) {
    const at::Tensor regular = G + rho * scale * at::eye(G.size(0), G.options());
    const auto [factor, info] = at::linalg_cholesky_ex(regular);
    if (info.item<int>() != 0) continue;
    const at::Tensor P = at::cholesky_inverse(factor).contiguous();
    if (at::isfinite(P).all().item<bool>()) return {regular, P};
  }
  throw Error(ErrorKind::failed, "eliminate", "the covariance of {} rows holds numbers that are not finite", G.size(0));
}

// One reader on the way: P and W of the channels that are left.
class EliminatedReader {
 public:
  EliminatedReader(const EliminationReader& reader, int64_t channels, double ridge)
      : rows_(reader.rows), own_(channels * reader.rows), W_(reader.weight.t().contiguous().clone()) {
    std::tie(G_, P_) = regular_inverse(reader.covariance, ridge);
    R_ = at::mm(G_, W_);
  }

  // What it would lose without each of the channels.
  at::Tensor losses() const {
    const at::Tensor mine = W_.narrow(0, 0, own_);
    if (rows_ == 1) return mine.square().sum(1) / P_.diagonal().narrow(0, 0, own_).clamp_min(kSmallest);
    const int64_t n = own_ / rows_;
    const at::Tensor P = P_.narrow(0, 0, own_).narrow(1, 0, own_);
    const at::Tensor blocks = P.unfold(0, rows_, rows_).unfold(1, rows_, rows_).diagonal().permute({2, 0, 1});
    const at::Tensor W = mine.reshape({n, rows_, -1});
    return (W * solved(blocks, W)).sum({1, 2});
  }

  void remove(int64_t channel) {
    const int64_t begin = channel * rows_;
    const at::Tensor columns = P_.narrow(1, begin, rows_).clone(at::MemoryFormat::Contiguous);
    const at::Tensor block = columns.narrow(0, begin, rows_);
    W_.addmm_(columns, solved(block, W_.narrow(0, begin, rows_)), 1, -1);
    P_.addmm_(columns, solved(block, columns.t()), 1, -1);
    P_.narrow(0, begin, rows_).zero_();  // a stranger to the others from now on
    P_.narrow(1, begin, rows_).zero_();
    P_.narrow(0, begin, rows_).narrow(1, begin, rows_).copy_(at::eye(rows_, P_.options()));
    W_.narrow(0, begin, rows_).zero_();
  }

  // Forgets all but these channels. What is left is worked out anew, so that rounding does not add up.
  void keep(const std::vector<int64_t>& channels) {
    const at::Tensor first = at::tensor(channels, at::kLong).unsqueeze(1) * rows_;
    const at::Tensor index =
        at::cat({(first + at::arange(rows_).unsqueeze(0)).reshape({-1}), at::arange(own_, P_.size(0))});
    own_ = first.numel() * rows_;
    G_ = G_.index_select(0, index).index_select(1, index);
    R_ = R_.index_select(0, index);
    const at::Tensor factor = at::linalg_cholesky(G_);
    P_ = at::cholesky_inverse(factor).contiguous();
    W_ = at::cholesky_solve(R_, factor).contiguous();
  }

 private:
  static constexpr double kSmallest = 1e-300;

  at::Tensor solved(const at::Tensor& block, const at::Tensor& right) const {
    if (rows_ == 1) return right / block.clamp_min(kSmallest);
    const at::Tensor size = block.diagonal(0, -2, -1).mean(-1).clamp_min(kSmallest).unsqueeze(-1).unsqueeze(-1);
    return at::linalg_solve(block + 1e-12 * size * at::eye(rows_, block.options()), right);
  }

  int64_t rows_;
  int64_t own_;       // rows of the channels that it holds
  at::Tensor G_, R_;  // W = G⁻¹ R of the channels that it holds
  at::Tensor P_, W_;  // without those removed since then
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
    if (left == 0 || 4 * left > 3 * static_cast<int64_t>(names.size())) continue;
    std::vector<int64_t> still;
    for (size_t i = 0; i < names.size(); ++i)
      if (!gone[i]) still.push_back(static_cast<int64_t>(i));
    for (auto& reader : readers) reader.keep(still);
    std::vector<int64_t> own;
    for (const int64_t i : still) own.push_back(names[static_cast<size_t>(i)]);
    names = std::move(own);
    gone.assign(names.size(), false);
  }
  return result;
}

}  // namespace pare
