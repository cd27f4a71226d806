// The observer is public.
#pragma once

#include "pare/observer.h"  // IWYU pragma: export
