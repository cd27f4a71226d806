#include "pare/data/scenes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <ostream>
#include <vector>

#include "pare/core/file.h"
#include "pare/data/idx.h"
#include "pare/data/image.h"
#include "pare/data/parallel.h"
#include "pare/data/places.h"
#include "pare/data/random.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kScenePlane = scene_side * scene_side;
constexpr int kPlacingTries = 12;
constexpr double kObjectThreshold = 0.12 * 255;

double uniform_between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }
int64_t integer_between(Random& random, int64_t low, int64_t high) { return low + random.below(high - low + 1); }

// Two independent standard normals (Box and Muller).
std::array<double, 2> normal_pair(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  const double angle = 2 * std::numbers::pi * random.uniform();
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

struct SceneParts {
  const Dataset& objects;
  const Dataset& backgrounds;
};

struct SceneObject {
  at::Tensor pixels;  // uint8 [1, side, side]
  int64_t side = 0, top = 0, left = 0, label = 0;
  std::array<double, 3> tint = {};

  uint8_t at(int64_t y, int64_t x) const { return pixels.data_ptr<uint8_t>()[y * side + x]; }
  bool covers(int64_t y, int64_t x) const { return at(y, x) > kObjectThreshold; }
};

class Scene {
 public:
  Scene(const SceneParts& parts, uint64_t seed) : parts_(parts), random_(seed), color_(3 * kScenePlane) {}

  void compose(uint8_t* image, uint8_t* labels, uint8_t* mask) {
    std::fill(mask, mask + kScenePlane, uint8_t{0});
    draw_background();
    const int64_t wanted = integer_between(random_, 1, 3);
    for (int64_t i = 0; i < wanted; ++i) {
      auto object = draw_object(labels);
      if (!place(object, mask)) continue;
      paint(object, mask);
      labels[object.label] = 1;
    }
    light(image);
  }

 private:
  at::Tensor mirrored_at_random(const at::Tensor& image) {
    return random_.coin() ? image.flip({2}).contiguous() : image.contiguous();
  }

  void draw_background() {
    const auto& all = parts_.backgrounds;
    const auto image = all.images[random_.below(all.size())];
    const int64_t side = integer_between(random_, 22, 32);
    const int64_t top = random_.below(all.height() - side + 1), left = random_.below(all.width() - side + 1);
    const auto crop = image.slice(1, top, top + side).slice(2, left, left + side);
    const auto scaled = mirrored_at_random(resize_bilinear(crop, scene_side, scene_side));
    for (int64_t i = 0; i < 3 * kScenePlane; ++i)
      color_[static_cast<size_t>(i)] = scaled.data_ptr<uint8_t>()[i] / 255.0;
  }

  // An object of a class that the scene does not have yet.
  SceneObject draw_object(const uint8_t* labels) {
    const auto& all = parts_.objects;
    int64_t index = random_.below(all.size());
    while (labels[all.labels.data_ptr<int64_t>()[index]] != 0) index = random_.below(all.size());
    SceneObject object{.side = integer_between(random_, 20, 32), .label = all.labels.data_ptr<int64_t>()[index]};
    object.pixels = mirrored_at_random(resize_bilinear(all.images[index], object.side, object.side));
    for (double& tint : object.tint) tint = uniform_between(random_, 0.35, 1);
    return object;
  }

  bool place(SceneObject& object, const uint8_t* mask) {
    for (int attempt = 0; attempt < kPlacingTries; ++attempt) {
      object.top = random_.below(scene_side - object.side + 1);
      object.left = random_.below(scene_side - object.side + 1);
      int64_t area = 0, covering = 0;
      for (int64_t y = 0; y < object.side; ++y)
        for (int64_t x = 0; x < object.side; ++x) {
          if (!object.covers(y, x)) continue;
          ++area;
          covering += mask[(object.top + y) * scene_side + object.left + x] != 0;
        }
      if (area > 0 && 10 * covering <= area) return true;
    }
    return false;
  }

  void paint(const SceneObject& object, uint8_t* mask) {
    for (int64_t y = 0; y < object.side; ++y)
      for (int64_t x = 0; x < object.side; ++x) {
        if (!object.covers(y, x)) continue;
        const int64_t at = (object.top + y) * scene_side + object.left + x;
        mask[at] = static_cast<uint8_t>(object.label + 1);
        for (int64_t c = 0; c < 3; ++c)
          color_[static_cast<size_t>(c * kScenePlane + at)] =
              object.at(y, x) / 255.0 * object.tint[static_cast<size_t>(c)];
      }
  }

  void light(uint8_t* image) {
    const double gain = uniform_between(random_, 0.7, 1.1);
    static_assert(3 * kScenePlane % 2 == 0);
    for (size_t i = 0; i < color_.size(); i += 2) {
      const auto noise = normal_pair(random_);
      for (size_t k = 0; k < 2; ++k)
        image[i + k] =
            static_cast<uint8_t>(std::lround(std::clamp(color_[i + k] * gain + 0.03 * noise[k], 0.0, 1.0) * 255));
    }
  }

  const SceneParts& parts_;
  Random random_;
  std::vector<double> color_;  // [3, side, side], 0…1
};

std::string scene_file(const std::string& split, const std::string& part, int rank) {
  return fmt::format("{}-{}-idx{}-ubyte", split, part, rank);
}

void write_idx(const fs::path& path, const at::Tensor& bytes) {
  write_file_atomically(path, [&](std::ostream& out) {
    const char magic[4] = {0, 0, 8, static_cast<char>(bytes.dim())};
    out.write(magic, 4);
    for (const int64_t size : bytes.sizes())
      for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(size >> shift));
    const auto whole = bytes.contiguous();
    out.write(reinterpret_cast<const char*>(whole.data_ptr<uint8_t>()), whole.numel());
  });
}

Dataset empty_scenes(const std::vector<std::string>& classes, const std::string& split) {
  return {.name = "scenes", .classes = classes, .mean = {0.45}, .std = {0.25}, .split = split};
}

std::vector<std::string> object_classes() {
  const auto names = known_dataset("fashion-mnist")->classes;
  return {names.begin(), names.end()};
}

}  // namespace

Dataset compose_scenes(const Dataset& objects, const Dataset& backgrounds, const SceneOptions& options) {
  if (options.count < 1 || options.count > 10'000'000)
    throw Error(ErrorKind::usage, "scenes", "{} scenes, expected 1 to 10,000,000", options.count);
  if (objects.multi_label() || objects.channels() != 1 || objects.height() != objects.width())
    throw Error(ErrorKind::shape, objects.name, "scenes need square gray objects of one class each");
  if (at::bincount(objects.labels).ne(0).sum().item<int64_t>() < 3)  // or no third object would ever be found
    throw Error(ErrorKind::shape, objects.name, "scenes need objects of at least 3 classes");
  if (backgrounds.channels() != 3 || backgrounds.height() < 32 || backgrounds.width() < 32)
    throw Error(ErrorKind::shape, backgrounds.name, "scenes need RGB backgrounds of at least 32 x 32");
  const auto classes = static_cast<int64_t>(objects.classes.size());
  Dataset out = empty_scenes(objects.classes, options.test ? "test" : "train");
  out.images = at::empty({options.count, 3, scene_side, scene_side}, at::kByte);
  out.labels = at::zeros({options.count, classes}, at::kByte);
  out.masks = at::empty({options.count, scene_side, scene_side}, at::kByte);
  auto* images = out.images.data_ptr<uint8_t>();
  auto* labels = out.labels.data_ptr<uint8_t>();
  auto* masks = out.masks.data_ptr<uint8_t>();
  const SceneParts parts{objects, backgrounds};
  parallel_each(static_cast<size_t>(options.count), options.threads, [&](size_t i) {
    const auto n = static_cast<int64_t>(i);
    Scene scene(parts, mix_seed({options.seed, options.test ? 1u : 0u, i, 0x7363656e65u}));
    scene.compose(images + n * 3 * kScenePlane, labels + n * classes, masks + n * kScenePlane);
  });
  check_dataset(out);
  return out;
}

Dataset load_scenes(const fs::path& directory, const DataOptions& options) {
  if (directory.empty()) {
    const auto part = [&](const char* name) {
      return load_dataset({.data = name, .split = options.split, .threads = options.threads});
    };
    const bool test = options.split == "test";
    const int64_t count = options.limit > 0 ? options.limit : test ? scene_count_test : scene_count_train;
    return compose_scenes(part("fashion-mnist"), part("cifar10"),
                          {.count = count, .seed = options.seed, .test = test, .threads = options.threads});
  }
  Dataset out = empty_scenes(object_classes(), options.split);
  out.images = read_idx(directory / scene_file(options.split, "images", 4));
  out.labels = read_idx(directory / scene_file(options.split, "labels", 2));
  out.masks = read_idx(directory / scene_file(options.split, "masks", 3));
  return out;
}

void write_scenes(const Dataset& scenes, const fs::path& directory) {
  if (scenes.classes != object_classes() || !scenes.masks.defined())
    throw Error(ErrorKind::usage, scenes.name, "only scenes of Fashion-MNIST's classes are written");
  make_directory(directory);
  write_idx(directory / scene_file(scenes.split, "images", 4), scenes.images);
  write_idx(directory / scene_file(scenes.split, "labels", 2), scenes.labels);
  write_idx(directory / scene_file(scenes.split, "masks", 3), scenes.masks);
}

}  // namespace pare
