// Execution is public; what runs graphs here also knows the operators.
#pragma once

#include "pare/ops/op.h"
#include "pare/run.h"  // IWYU pragma: export
