// Random numbers that are the same on every machine and standard library: the engine is std::mt19937_64, whose output
// the standard fixes; what is drawn from it is defined here, not by std:: distributions.
// A Random belongs to one thread.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace pare {

// One well-mixed 64-bit seed from several numbers (splitmix64 over each in turn).
inline uint64_t mix_seed(std::initializer_list<uint64_t> numbers) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (const uint64_t number : numbers) {
    state += number + 0x9e3779b97f4a7c15u;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
    state ^= state >> 31;
  }
  return state;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t bits() { return engine_(); }

  // Uniform in [0, count), without bias; count must be positive.
  int64_t below(int64_t count) {
    const auto range = static_cast<uint64_t>(count);
    const uint64_t reject = (0 - range) % range;  // 2^64 mod range: so many of the lowest draws would be one too many
    uint64_t draw = engine_();
    while (draw < reject) draw = engine_();
    return static_cast<int64_t>(draw % range);
  }

  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // [0, 1)
  bool coin() { return (engine_() >> 63) != 0; }

 private:
  std::mt19937_64 engine_;
};

// Fisher–Yates.
inline std::vector<int64_t> random_permutation(int64_t count, Random& random) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto j = static_cast<size_t>(random.below(i + 1));
    order[static_cast<size_t>(i)] = order[j];
    order[j] = i;
  }
  return order;
}

}  // namespace pare
