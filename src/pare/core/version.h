// The version is public.
#pragma once

#include "pare/version.h"  // IWYU pragma: export
