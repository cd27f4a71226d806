#include <ATen/ATen.h>

#include <cmath>
#include <ostream>

#include "command.h"
#include "input.h"
#include "pare/analysis/cost.h"
#include "pare/compare.h"
#include "pare/core/file.h"
#include "pare/error.h"
#include "pare/report/diff_page.h"
#include "pare/report/record.h"
#include "pare/run.h"
#include "pare/workflow/compare.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Diff : public Command {
 public:
  std::string_view name() const override { return "diff"; }
  std::string_view summary() const override { return "What changed between two models"; }
  std::vector<Example> examples() const override {
    return {{"both graphs side by side on a page", "pare diff model.onnx small.onnx --html diff.html"}};
  }

  void describe(OptionVisitor& options) override {
    options.positional("models", models_, "two models: ONNX files, or weights with --arch");
    options.heading("output");
    options.essential().field("html", html_, "FILE.html: both graphs side by side");
    options.field("samples", samples_, "random inputs to compare the outputs on (0: do not)");
    options.field("all", all_, "also list what is the same");
    model_options_.describe(options, {with("models", {"!*.onnx"})});
  }

  nlohmann::json run(Session& session) override {
    if (models_.size() != 2) throw Error(ErrorKind::usage, "diff", "expected two models, found {}", models_.size());
    a_ = models_[0];
    b_ = models_[1];
    if (samples_ < 0) throw Error(ErrorKind::usage, "--samples", "expected 0 or more, found {}", samples_);
    if (!html_.empty()) check_writable(html_, session.common.force);
    const auto seed = static_cast<uint64_t>(session.common.seed);
    const std::vector<Graph> graphs = read_models(session, models_, model_options_);
    const Graph& a = graphs[0];
    const Graph& b = graphs[1];
    const GraphDiff diff = pare::diff(a, b);
    std::string problem;
    const auto outputs = output_distances(a, b, seed, problem);
    if (!html_.empty()) write_page(a, b, diff, outputs, problem);
    nlohmann::json result = nodes_json(session, diff);
    result["inputs"] = inputs_json(session, diff);
    result["totals"] = totals(session, a, b);
    result["outputs"] = output_json(session, outputs, problem);
    if (!problem.empty()) result["not_compared"] = problem;
    if (!html_.empty()) session.print("\n{} written\n", html_);
    return result;
  }

 private:
  std::vector<Difference> output_distances(const Graph& a, const Graph& b, uint64_t seed, std::string& problem) const {
    if (samples_ == 0) return {};
    std::vector<std::vector<at::Tensor>> samples;
    try {
      for (int64_t i = 0; i < samples_; ++i) samples.push_back(random_inputs(a, 1, seed + static_cast<uint64_t>(i)));
      return compare_models(a, b, samples, {});
    } catch (const Error& error) {
      problem = error.what();  // other inputs, or an operator that cannot be run: the graphs can still be compared
    }
    return {};
  }

  nlohmann::json nodes_json(Session& session, const GraphDiff& diff) const {
    Table table({"node", "operator", "change", "output", "parameters", "MACs", "weight distance"});
    auto list = nlohmann::json::array();
    const auto both = [](const std::string& a, const std::string& b) { return a == b ? a : a + " -> " + b; };
    for (const auto& node : diff.nodes) {
      const NodeSide a = node.a.value_or(NodeSide{});
      const NodeSide b = node.b.value_or(NodeSide{});
      const auto count = [](const std::optional<NodeSide>& side, int64_t value) {
        return side ? with_commas(value) : std::string("-");
      };
      const std::string change(to_string(node.change));
      if (all_ || node.change != NodeChange::same)
        table.add({node.a ? a.name : b.name, node.op, node.what.empty() ? change : node.what,
                   both(node.a ? a.output : "-", node.b ? b.output : "-"),
                   both(count(node.a, a.parameters), count(node.b, b.parameters)),
                   both(count(node.a, a.macs), count(node.b, b.macs)),
                   std::isnan(node.weight_distance) ? "" : fmt::format("{:.4g}", node.weight_distance)});
      nlohmann::json entry = {{"op", node.op}, {"change", change}, {"what", node.what}};
      if (node.a) entry["a"] = side_json(a);
      if (node.b) entry["b"] = side_json(b);
      if (!std::isnan(node.weight_distance)) entry["weight_distance"] = node.weight_distance;
      list.push_back(entry);
    }
    const auto number = [&](NodeChange change) { return diff.count(change); };
    session.print("{}\n{} nodes changed, {} added, {} removed, {} the same\n", table.text(),
                  number(NodeChange::changed), number(NodeChange::added), number(NodeChange::removed),
                  number(NodeChange::same));
    return {{"nodes", list},
            {"changed", number(NodeChange::changed)},
            {"added", number(NodeChange::added)},
            {"removed", number(NodeChange::removed)},
            {"same", number(NodeChange::same)}};
  }

  static nlohmann::json inputs_json(Session& session, const GraphDiff& diff) {
    auto list = nlohmann::json::array();
    for (const auto& input : diff.inputs) {
      session.print("input {} changed: {} -> {}\n", input.name, input.a, input.b);
      list.push_back({{"name", input.name}, {"a", input.a}, {"b", input.b}});
    }
    return list;
  }

  static nlohmann::json side_json(const NodeSide& side) {
    return {{"name", side.name}, {"output", side.output}, {"parameters", side.parameters}, {"macs", side.macs}};
  }

  nlohmann::json totals(Session& session, const Graph& a, const Graph& b) const {
    const ModelCost first = cost_of(a);
    const ModelCost second = cost_of(b);
    Table table({"", a_, b_});
    table.add({"parameters", with_commas(first.parameters), with_commas(second.parameters)});
    table.add({"MACs per image", with_commas(first.macs), with_commas(second.macs)});
    table.add({"bytes", with_commas(first.bytes), with_commas(second.bytes)});
    session.print("\n{}", table.text());
    return {{"a", to_json(model_entry(a_, first))}, {"b", to_json(model_entry(b_, second))}};
  }

  static nlohmann::json output_json(Session& session, const std::vector<Difference>& outputs,
                                    const std::string& problem) {
    if (!problem.empty()) session.print("\nthe outputs were not compared: {}\n", problem);
    auto list = nlohmann::json::array();
    Table table({"output", "largest difference", "relative", ""});
    for (const auto& output : outputs) {
      const bool compared = output.problem.empty();
      const auto figure = [&](double value) { return compared ? fmt::format("{:.4g}", value) : std::string("-"); };
      table.add({output.name, figure(output.largest), figure(output.relative_to_largest), output.problem});
      nlohmann::json entry = {{"name", output.name}, {"problem", output.problem}};
      if (compared) entry.update({{"largest", output.largest}, {"relative", output.relative_to_largest}});
      list.push_back(std::move(entry));
    }
    if (!outputs.empty()) session.print("\n{}", table.text());
    return list;
  }

  void write_page(const Graph& a, const Graph& b, const GraphDiff& diff, const std::vector<Difference>& outputs,
                  const std::string& problem) const {
    const ModelCost first = cost_of(a);
    const ModelCost second = cost_of(b);
    DiffPage page{
        .title = fmt::format("{} and {}", a_, b_), .a = a_, .b = b_, .totals = {}, .outputs = {}, .problem = problem};
    page.totals.heading = {"", escape_html(a_), escape_html(b_)};
    page.totals.rows = {{"parameters", with_commas(first.parameters), with_commas(second.parameters)},
                        {"MACs per image", with_commas(first.macs), with_commas(second.macs)},
                        {"bytes", with_commas(first.bytes), with_commas(second.bytes)}};
    for (const auto& output : outputs)
      page.outputs.push_back({output.name, output.largest, output.relative_to_largest, output.problem});
    const std::string text = html_page(page, a, b, diff);
    write_file_atomically(html_, [&](std::ostream& out) { out << text; });
  }

  std::vector<std::string> models_;
  std::string a_;
  std::string b_;
  std::string html_;
  int64_t samples_ = 4;
  bool all_ = false;
  ModelOptions model_options_;
};

}  // namespace

std::unique_ptr<Command> make_diff() { return std::make_unique<Diff>(); }

}  // namespace pare::cli
