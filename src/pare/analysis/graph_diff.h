// What changed between two graphs is public.
#pragma once

#include "pare/compare.h"  // IWYU pragma: export
