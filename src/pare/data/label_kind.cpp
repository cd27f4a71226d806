#include <ATen/ATen.h>

#include "pare/error.h"
#include "pare/samples.h"

namespace pare {

LabelKind label_kind(const at::Tensor& labels) {
  const at::ScalarType type = labels.scalar_type();
  if (labels.dim() == 1 && at::isIntegralType(type, /*includeBool=*/false)) return LabelKind::one_class;
  if (labels.dim() == 2 && type == at::kByte) return LabelKind::classes;
  if (labels.dim() == 3 && type == at::kByte) return LabelKind::masks;
  if (labels.dim() == 3 && labels.size(2) == 6 && at::isFloatingType(type)) return LabelKind::boxes;
  throw Error(ErrorKind::shape, "labels",
              "are {} {}, expected int64 [N], uint8 [N, K], masks uint8 [N, H, W] or boxes float32 [N, M, 6]",
              c10::toString(type), fmt::join(labels.sizes(), "x"));
}

}  // namespace pare
