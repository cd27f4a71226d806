// Kernels over eight floats at once, by AVX2 where the processor has it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pare {

// Wherever they lie.
using Float8 [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
using Integer8 [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = int32_t;
constexpr int64_t kLanes = 8;

[[gnu::always_inline]] inline const Float8& lanes(const float* at) { return *reinterpret_cast<const Float8*>(at); }
[[gnu::always_inline]] inline Float8& lanes(float* at) { return *reinterpret_cast<Float8*>(at); }
[[gnu::always_inline]] inline const Integer8& lanes(const int32_t* at) {
  return *reinterpret_cast<const Integer8*>(at);
}
[[gnu::always_inline]] inline Integer8& lanes(int32_t* at) { return *reinterpret_cast<Integer8*>(at); }

// body(c) for groups of eight channels, at least one; the last overlaps the one before where their number is not a
// multiple.
template <typename Body>
[[gnu::always_inline]] inline void over_channels(int64_t channels, const Body& body) {
  for (int64_t c = 0; c < channels; c += kLanes) body(std::min(c, channels - kLanes));
}

#if defined(__x86_64__)
template <typename Kernel>
[[gnu::target("avx2,fma")]] void run_avx2(const Kernel& kernel) {
  kernel.run();
}
#endif

// kernel.run(), which must always be inlined, as must all that it calls.
template <typename Kernel>
void run_lanes(const Kernel& kernel) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (wide) return run_avx2(kernel);
#endif
  kernel.run();
}

}  // namespace pare
