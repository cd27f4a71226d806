// Turns described options into command-line flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "pare/core/options.h"

namespace pare::cli {

class FlagWriter : public OptionVisitor {
 public:
  explicit FlagWriter(CLI::App& app) : app_(app) {}
  void field(const std::string& name, bool& value, const std::string& help) override;
  void field(const std::string& name, int64_t& value, const std::string& help) override;
  void field(const std::string& name, double& value, const std::string& help) override;
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override;
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override;
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override;
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override;
  void positional(const std::string& name, std::string& value, const std::string& help, bool required) override;
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  bool required) override;

 private:
  CLI::App& app_;
};

// Lists the flags of a command, for completions.
struct FlagInfo {
  std::string name;
  std::string help;
  Choices choices;
  bool takes_value = true;
};

class FlagLister : public OptionVisitor {
 public:
  std::vector<FlagInfo> flags;
  void field(const std::string& name, bool& value, const std::string& help) override {
    flags.push_back({name, help, {}, false});
  }
  void field(const std::string& name, int64_t& value, const std::string& help) override {
    flags.push_back({name, help});
  }
  void field(const std::string& name, double& value, const std::string& help) override {
    flags.push_back({name, help});
  }
  void field(const std::string& name, std::string& value, const std::string& help, const Choices& choices) override {
    flags.push_back({name, help, choices});
  }
  void field(const std::string& name, std::vector<std::string>& values, const std::string& help,
             const Choices& choices) override {
    flags.push_back({name, help, choices});
  }
  void field(const std::string& name, std::vector<double>& values, const std::string& help) override {
    flags.push_back({name, help});
  }
  void field(const std::string& name, std::vector<int64_t>& values, const std::string& help) override {
    flags.push_back({name, help});
  }
  void positional(const std::string& name, std::string& value, const std::string& help, bool required) override {}
  void positional(const std::string& name, std::vector<std::string>& values, const std::string& help,
                  bool required) override {}
};

}  // namespace pare::cli
