// The twin of onednn.cpp where oneDNN's headers are missing.
#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/ops/onednn.h"

namespace pare {

bool onednn_available() { return false; }

at::Tensor pack_linear_weight(const at::Tensor& /*weight*/) {
  throw Error(ErrorKind::unsupported, "Linear", "this build has no oneDNN");
}

at::Tensor run_packed_linear(const at::Tensor& /*x*/, const PackedLinear& /*layer*/) {
  throw Error(ErrorKind::unsupported, "Linear", "this build has no oneDNN");
}

at::Tensor transposed_product(const at::Tensor& x, const at::Tensor& y) { return at::mm(x.t(), y); }

}  // namespace pare
