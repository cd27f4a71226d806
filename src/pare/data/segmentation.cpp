#include "pare/data/segmentation.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "pare/core/file.h"
#include "pare/data/folder.h"
#include "pare/data/mask.h"
#include "pare/data/parallel.h"
#include "pare/data/voc.h"
#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

struct Masked {
  fs::path picture, mask;
};

std::vector<Masked> listed_in_kit(const fs::path& kit, const std::string& split) {
  const fs::path list = kit / "ImageSets" / "Segmentation" / (split == "train" ? "train.txt" : "val.txt");
  std::vector<Masked> pairs;
  for (const auto& id : decode_voc_list(MappedFile::open(list)->text(), list.string()))
    pairs.push_back({kit / "JPEGImages" / (id + ".jpg"), kit / "SegmentationClass" / (id + ".png")});
  if (pairs.empty()) throw Error(ErrorKind::format, list.string(), "names no images");
  return pairs;
}

std::vector<Masked> in_directories(const fs::path& root) {
  std::vector<Masked> pairs;
  for (const auto& path : pictures_in(root / "images")) {
    const fs::path mask = root / "masks" / (path.stem().string() + ".png");
    if (!fs::is_regular_file(mask))
      throw Error(ErrorKind::file, mask.string(), "is not there: the mask of {}", path.string());
    pairs.push_back({path, mask});
  }
  if (pairs.empty()) throw Error(ErrorKind::file, (root / "images").string(), "has no images; expected .png or .jpg");
  return pairs;
}

// Masks of the pictures, fitted as they are.
at::Tensor read_masks(const std::vector<Masked>& pairs, const LabelledPictures& pictures, int64_t classes,
                      const PictureOptions& options) {
  const at::Tensor& images = pictures.data.images;
  at::Tensor masks = at::empty({images.size(0), images.size(2), images.size(3)}, at::kByte);
  parallel_each(pairs.size(), options.threads, [&](size_t i) {
    at::Tensor mask = read_mask(pairs[i].mask, classes, pictures.files[i].extents);
    if (options.size.height > 0) mask = fit_mask(mask, options.size, options.fit);
    masks[static_cast<int64_t>(i)].copy_(mask);
  });
  return masks;
}

std::vector<std::string> voc_classes_and_background() {
  std::vector<std::string> classes = {"background"};
  classes.insert(classes.end(), voc_classes.begin(), voc_classes.end());
  return classes;
}

// 0, 1, … up to the largest class of the masks.
std::vector<std::string> numbered(const at::Tensor& masks) {
  const at::Tensor seen = masks.masked_fill(masks == 255, 0);
  std::vector<std::string> classes;
  for (int64_t c = 0; c <= seen.max().item<int64_t>(); ++c) classes.push_back(std::to_string(c));
  return classes;
}

}  // namespace

Dataset load_segmentation(const fs::path& directory, const std::vector<std::string>& classes,
                          const PictureOptions& options, const std::string& split) {
  constexpr size_t kMost = 255;
  if (classes.size() > kMost)
    throw Error(ErrorKind::format, directory.string(), "{} classes, a mask can have {}", classes.size(), kMost);
  Dataset out{.name = "segmentation", .classes = classes, .mean = folder_mean, .std = folder_std, .split = split};
  std::vector<Masked> pairs;
  if (const auto root = divided_root(directory, split); fs::is_directory(root.path / "masks")) {
    if (!root.divided) out.split = "all";
    pairs = in_directories(root.path);
  } else {
    pairs = listed_in_kit(find_voc_kit(directory), split);
    if (classes.empty()) out.classes = voc_classes_and_background();
  }
  std::vector<PictureEntry> entries;
  std::vector<Masked> chosen;
  for (const size_t i : evenly_spaced(pairs.size(), options.limit)) {
    entries.push_back({pairs[i].picture, 0});
    chosen.push_back(pairs[i]);
  }
  LabelledPictures pictures = read_pictures(entries, {}, options);
  const auto most = static_cast<int64_t>(out.classes.empty() ? kMost : out.classes.size());
  out.labels = read_masks(chosen, pictures, most, options);
  if (out.classes.empty()) out.classes = numbered(out.labels);
  out.images = std::move(pictures.data.images);
  out.files = std::move(pictures.files);
  return out;
}

}  // namespace pare
