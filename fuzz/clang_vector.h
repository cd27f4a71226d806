// Forced into every file that clang 14 compiles in C++20 (-include). With libstdc++ 12, whose vector is constexpr
// there, it instantiates std::vector<c10::IValue> where libtorch 1.13 has only declared IValue; a vector that is not
// constexpr, as in C++17, waits until it is defined. The price: std::fill over vector<bool> does not link.
#pragma once

#include <algorithm>
#include <string>

#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // declared constexpr before, so its definition must not clash
#include <vector>
#undef __fill_a1
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")
