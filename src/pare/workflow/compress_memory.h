// What a compression has learned so far, in a directory, so that one that was interrupted goes on from there.
#pragma once

#include <filesystem>
#include <optional>

#include "pare/compress.h"
#include "pare/prune/channel_study.h"

namespace pare {

class CompressMemory {
 public:
  // An empty path remembers nothing. `key` names what is compressed and how: what was learned of something else, or
  // can't be read, is forgotten.
  CompressMemory(std::filesystem::path directory, std::string key);

  std::optional<ChannelStudy> study() const;
  void keep(const ChannelStudy& study) const;

  // A network of these widths that was measured before.
  std::optional<CompressPoint> point(const std::map<std::string, int64_t>& widths) const;
  void keep(const CompressPoint& point);

 private:
  std::filesystem::path directory_;
  std::string key_;
  std::vector<CompressPoint> points_;
};

nlohmann::json to_json(const CompressPoint& point);

}  // namespace pare
