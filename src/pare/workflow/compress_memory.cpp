#include "pare/workflow/compress_memory.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/io/safetensors.h"

namespace pare {

namespace {

using nlohmann::json;

// Nothing where there is no such file, or one of something else.
json read_json(const std::filesystem::path& path, const std::string& key) {
  std::ifstream in(path);
  json document = json::parse(in, nullptr, false);
  return document.is_object() && document.value("key", "") == key ? document : json();
}

void write_json(const std::filesystem::path& path, const json& document) {
  write_file_atomically(path, [&](std::ostream& out) { out << document.dump(); });
}

CompressPoint point_of(const json& entry) {
  CompressPoint point{.widths = entry.at("widths"),
                      .macs = entry.at("macs"),
                      .parameters = entry.at("parameters"),
                      .bytes = entry.at("bytes"),
                      .latency = entry.at("latency"),
                      .base_latency = entry.at("base_latency")};
  if (entry.contains("score")) point.score = entry.at("score").get<double>();
  point.drop = entry.at("drop");
  point.interval = entry.at("interval");
  return point;
}

ChannelStudy study_of(const json& document, const NamedTensors& fisher) {
  ChannelStudy study;
  for (const auto& entry : document.at("groups")) {
    GroupElimination elimination{.group = entry.at("group"), .error = entry.at("error")};
    for (const int64_t id : entry.at("order")) elimination.order.push_back(ChannelId{id});
    GroupSensitivity sensitivity{.group = elimination.group, .divergence = entry.at("divergence")};
    study.eliminations.push_back(std::move(elimination));
    study.sensitivity.push_back(std::move(sensitivity));
  }
  for (const auto& [name, tensor] : fisher.tensors) study.fisher[std::stoul(name)] = tensor;
  return study;
}

}  // namespace

json to_json(const CompressPoint& point) {
  json entry = {{"widths", point.widths}, {"macs", point.macs},         {"parameters", point.parameters},
                {"bytes", point.bytes},   {"latency", point.latency},   {"base_latency", point.base_latency},
                {"drop", point.drop},     {"interval", point.interval}, {"speed_up", point.speed_up()}};
  if (point.score) entry["score"] = *point.score;
  return entry;
}

CompressMemory::CompressMemory(std::filesystem::path directory, std::string key)
    : directory_(std::move(directory)), key_(std::move(key)) {
  if (directory_.empty()) return;
  std::filesystem::create_directories(directory_);
  const json document = read_json(directory_ / "points.json", key_);
  if (document.is_null()) return;
  try {
    for (const auto& entry : document.at("points")) points_.push_back(point_of(entry));
  } catch (const json::exception&) {
    points_.clear();
  }
}

std::optional<ChannelStudy> CompressMemory::study() const {
  if (directory_.empty()) return {};
  const json document = read_json(directory_ / "study.json", key_);
  if (document.is_null()) return {};
  try {
    return study_of(document, read_safetensors(directory_ / "output_roots.safetensors"));
  } catch (const json::exception&) {
    return {};
  } catch (const Error&) {
    return {};
  }
}

void CompressMemory::keep(const ChannelStudy& study) const {
  if (directory_.empty()) return;
  auto groups = json::array();
  for (size_t g = 0; g < study.eliminations.size(); ++g) {
    const GroupElimination& elimination = study.eliminations[g];
    std::vector<int64_t> order;
    for (const ChannelId id : elimination.order) order.push_back(static_cast<int64_t>(id));
    groups.push_back({{"group", elimination.group},
                      {"order", order},
                      {"error", elimination.error},
                      {"divergence", study.sensitivity.at(g).divergence}});
  }
  NamedTensors fisher;
  for (const auto& [node, root] : study.fisher) fisher.tensors.emplace_back(std::to_string(node), root.contiguous());
  write_safetensors(directory_ / "output_roots.safetensors", fisher);
  write_json(directory_ / "study.json", {{"key", key_}, {"groups", groups}});
}

std::optional<CompressPoint> CompressMemory::point(const std::map<std::string, int64_t>& widths) const {
  const auto found =
      std::find_if(points_.begin(), points_.end(), [&](const CompressPoint& point) { return point.widths == widths; });
  return found == points_.end() ? std::nullopt : std::optional(*found);
}

void CompressMemory::keep(const CompressPoint& point) {
  points_.push_back(point);
  if (directory_.empty()) return;
  auto points = json::array();
  for (const auto& own : points_) points.push_back(to_json(own));
  write_json(directory_ / "points.json", {{"key", key_}, {"points", points}});
}

}  // namespace pare
