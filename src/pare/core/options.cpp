#include "pare/core/options.h"

#include <nlohmann/json.hpp>

namespace pare {

JsonWriter::JsonWriter() : json_(std::make_unique<nlohmann::json>(nlohmann::json::object())) {}
JsonWriter::~JsonWriter() = default;

void JsonWriter::field(const std::string& name, bool& value, const std::string& /*help*/) { (*json_)[name] = value; }
void JsonWriter::field(const std::string& name, int64_t& value, const std::string& /*help*/) { (*json_)[name] = value; }
void JsonWriter::field(const std::string& name, double& value, const std::string& /*help*/) { (*json_)[name] = value; }
void JsonWriter::field(const std::string& name, std::string& value, const std::string& /*help*/,
                       const Choices& /*choices*/) {
  (*json_)[name] = value;
}
void JsonWriter::field(const std::string& name, std::vector<std::string>& values, const std::string& /*help*/,
                       const Choices& /*choices*/) {
  (*json_)[name] = values;
}
void JsonWriter::field(const std::string& name, std::vector<double>& values, const std::string& /*help*/) {
  (*json_)[name] = values;
}
void JsonWriter::field(const std::string& name, std::vector<int64_t>& values, const std::string& /*help*/) {
  (*json_)[name] = values;
}
void JsonWriter::positional(const std::string& name, std::string& value, const std::string& /*help*/,
                            bool /*required*/) {
  (*json_)[name] = value;
}
void JsonWriter::positional(const std::string& name, std::vector<std::string>& values, const std::string& /*help*/,
                            bool /*required*/) {
  (*json_)[name] = values;
}

std::string to_toml(const nlohmann::json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) text += key + " = " + json_text(value) + "\n";
  return text;
}

std::string json_text(const nlohmann::json& value, int indent) {
  // Names of files may be any bytes: dump() alone would throw at those that are not UTF-8.
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace pare
