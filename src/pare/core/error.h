// The one exception type is public.
#pragma once

#include "pare/error.h"  // IWYU pragma: export
