// Attribution is public.
#pragma once

#include "pare/explain.h"  // IWYU pragma: export
