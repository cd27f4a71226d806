// The graph is public.
#pragma once

#include "pare/graph.h"  // IWYU pragma: export
