// Scenes: a multi-label data set with pixel-exact masks, composed of Fashion-MNIST objects on CIFAR-10 backgrounds. It
// asks the questions that PASCAL VOC asks of an attribution map (several objects, clutter, which pixels are it?) at a
// size that a CPU can train on.
//
// A scene is 56 x 56 RGB.
//   background  a random square of 22 to 32 pixels of a CIFAR-10 image, enlarged to the scene, mirrored at random
//   objects     1 to 3 of different classes, each scaled bilinearly to 20 to 32 pixels and mirrored at random; pixels
//               above 0.12 are the object; tinted by U(0.35, 1) per channel; placed so that at most a tenth of it
//               covers earlier objects (12 tries, then it is left out)
//   light       gain U(0.7, 1.1), Gaussian noise of 0.03, clipped
// The label is the set of classes; the mask holds class + 1 of the object on top. Split train takes objects and
// backgrounds of the train splits, test those of the test splits. Scene i depends on (seed, split, i) alone: neither on
// how many are made nor on the threads.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <filesystem>

#include "pare/data/dataset.h"

namespace pare {

inline constexpr int64_t scene_side = 56;
inline constexpr int64_t scene_count_train = 12000;
inline constexpr int64_t scene_count_test = 1000;

struct SceneOptions {
  int64_t count = 1;
  uint64_t seed = 0;
  bool test = false;  // only told apart from train in the seed
  int threads = 0;    // 0: one per core
};

// Scenes of these objects (uint8 [N, 1, 28, 28], any square side, with labels) on these backgrounds (uint8 [N, 3, 32,
// 32]).
Dataset compose_scenes(const Dataset& objects, const Dataset& backgrounds, const SceneOptions& options);

// `directory` empty: composed from fashion-mnist and cifar10 where they are found, options.limit of them (0: the counts
// above). Otherwise what write_scenes left there.
Dataset load_scenes(const std::filesystem::path& directory, const DataOptions& options);

// SPLIT-images-idx4-ubyte, SPLIT-labels-idx2-ubyte and SPLIT-masks-idx3-ubyte in `directory`, which is made.
void write_scenes(const Dataset& scenes, const std::filesystem::path& directory);

}  // namespace pare
