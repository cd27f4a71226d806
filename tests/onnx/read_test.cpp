#include "pare/io/onnx/read.h"

#include <gtest/gtest.h>

namespace pare {
namespace {
TEST(ReadOnnx, RefusesEmpty) { EXPECT_ANY_THROW(read_onnx_bytes({}, "x")); }
}  // namespace
}  // namespace pare
