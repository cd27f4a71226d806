// libtorch 1.13 uses std::vector of an incomplete type in inline functions. With C++20's constexpr vector clang
// instantiates those at once and fails, so clang is given a vector whose members are not constexpr. Included before
// everything else, with clang and libstdc++ only.
#pragma once

#ifdef __cplusplus
#include <string>
#ifdef _GLIBCXX20_CONSTEXPR
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR inline
#define __fill_a1 __fill_a1_of_bits  // declared as constexpr before, so it is defined under another name
#include <vector>
#undef __fill_a1
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr

// std::__fill_a1(_Bit_iterator, _Bit_iterator, const bool&), for the linker.
void pare_fill_bits(std::_Bit_iterator, std::_Bit_iterator, const bool&) asm("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
__attribute__((weak)) void pare_fill_bits(std::_Bit_iterator first, std::_Bit_iterator last, const bool& value) {
  std::__fill_a1_of_bits(first, last, value);
}
#endif
#endif
