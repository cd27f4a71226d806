// Inside data sets: which ones are known, and which files of a directory are theirs. Pure functions; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pare/data/dataset.h"

namespace pare {

enum class FileLayout { idx, cifar10, cifar100 };

struct KnownDataset {
  const char* name;
  FileLayout files;
  std::span<const char* const> classes;
  std::vector<double> mean, std;
  std::vector<std::string> fixed;  // absolute directories that packages install to
  std::string module;              // directory under node_modules
  std::string get;                 // the command that gets it
};

const std::vector<KnownDataset>& known_datasets();
const KnownDataset* known_dataset(std::string_view name);  // null: unknown

// The files of one split in one directory.
struct SplitFiles {
  std::string layout;
  std::vector<std::filesystem::path> images;
  std::filesystem::path labels;  // empty: inside the image files
};

std::optional<SplitFiles> split_files(const KnownDataset& known, const std::filesystem::path& directory,
                                      std::string_view split);

// Looks through `directories` in order for one that has `split`, or any split when it is empty.
DatasetPlace search_places(const KnownDataset& known, const std::vector<std::filesystem::path>& directories,
                           std::string_view split);
std::vector<std::filesystem::path> usual_places(const KnownDataset& known);

// As search_places over DIR or, when `directory` is empty, the usual places; throws Error{file} when it is in none.
DatasetPlace require_place(const KnownDataset& known, const std::string& directory, std::string_view split);

[[noreturn]] void throw_unknown_dataset(std::string_view data);

}  // namespace pare
