#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "command.h"
#include "input.h"
#include "pare/analysis/channels.h"
#include "pare/analysis/cost.h"
#include "pare/analysis/exchange.h"
#include "pare/zoo/model.h"

namespace pare::cli {

namespace {

class Inspect : public Command {
 public:
  std::string_view name() const override { return "inspect"; }
  std::string_view summary() const override { return "Layers, parameters, MACs, bytes and channel groups of a model"; }
  std::vector<Example> examples() const override {
    return {{"layers, cost, and what can be removed", "pare inspect model.onnx --layers"},
            {"weights of a known architecture", "pare inspect weights.pth --arch resnet20"}};
  }

  bool recorded() const override { return false; }
  void describe(OptionVisitor& options) override {
    options.positional("model", model_, "an ONNX file, or weights with --arch", false);
    model_options_.describe(options, {with("model", {"!*.onnx"})});
    options.heading("output");
    options.essential().field("layers", layers_, "list every layer");
  }

  nlohmann::json run(Session& session) override {
    const Model model = read_model(session, model_, model_options_);
    const ChannelMap map = analyze_channels(model.graph);
    const ModelCost cost = cost_of(model.graph, map.shapes);
    const ExchangeMap exchange = analyze_exchange(model.graph);
    const auto groups = groups_json(model.graph, map, exchange);
    print_summary(session, model, cost, map);
    print_layers(session, cost);
    print_groups(session, model.graph, map, exchange);
    const std::vector<Blocker> blockers = blockers_of(map);
    print_blockers(session, blockers);
    return {{"model", model.path.empty() ? model_options_.arch : model.path},
            {"parameters", cost.parameters},
            {"statistics", cost.statistics},
            {"macs", cost.macs},
            {"flops", cost.flops},
            {"bytes", cost.bytes},
            {"complete", cost.complete},
            {"nodes", nodes_json(cost)},
            {"inputs", values_json(model.graph.inputs)},
            {"outputs", values_json(model.graph.outputs)},
            {"metadata", model.graph.metadata},
            {"groups", groups},
            {"blockers", blockers_json(blockers)},
            {"assumed_shapes", map.shapes.assumed},
            {"unknown_shapes", map.shapes.unknown}};
  }

 private:
  // A reason for which channels may not be removed, and how many it keeps.
  struct Blocker {
    std::string reason;
    size_t channels = 0;
    size_t groups = 0;
  };

  // What keeps most channels first.
  static std::vector<Blocker> blockers_of(const ChannelMap& map) {
    std::map<std::string, Blocker> found;
    for (const auto& group : map.groups) {
      std::set<std::string> reasons;
      for (const ChannelId channel : group.channels) {
        const std::string reason = map.sets.reason(static_cast<int64_t>(channel));
        if (reason.empty()) continue;
        ++found[reason].channels;
        reasons.insert(reason);
      }
      for (const auto& reason : reasons) ++found[reason].groups;
    }
    std::vector<Blocker> list;
    for (auto& [reason, blocker] : found) list.push_back({reason, blocker.channels, blocker.groups});
    std::ranges::stable_sort(list, std::greater(), &Blocker::channels);
    return list;
  }

  static nlohmann::json blockers_json(const std::vector<Blocker>& blockers) {
    auto list = nlohmann::json::array();
    for (const auto& [reason, channels, groups] : blockers)
      list.push_back({{"reason", reason}, {"channels", channels}, {"groups", groups}});
    return list;
  }

  static void print_blockers(Session& session, const std::vector<Blocker>& blockers) {
    if (blockers.empty()) return;
    Table table({"channels kept", "groups", "why they are not removable"});
    for (const auto& [reason, channels, groups] : blockers)
      table.add({with_commas(static_cast<int64_t>(channels)), std::to_string(groups), reason});
    session.print("\n{}", table.text());
  }

  static std::string type_text(const ValueInfo& info) {
    const std::string scalar = to_string(TensorType{info.dtype, {}});
    return scalar.substr(0, scalar.find(' '));
  }

  static std::string dims_text(const ValueInfo& info) {
    if (!info.dims) return "?";
    std::vector<std::string> parts;
    for (const auto& dim : *info.dims)
      parts.push_back(dim.fixed() && !dim.assumed ? std::to_string(dim.size) : dim.symbol.empty() ? "?" : dim.symbol);
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }

  static nlohmann::json values_json(const std::vector<ValueInfo>& infos) {
    auto list = nlohmann::json::array();
    for (const auto& info : infos)
      list.push_back({{"name", info.name}, {"type", type_text(info)}, {"shape", dims_text(info)}});
    return list;
  }

  static nlohmann::json nodes_json(const ModelCost& cost) {
    auto list = nlohmann::json::array();
    for (const auto& node : cost.nodes)
      list.push_back({{"name", node.name},
                      {"op", node.op},
                      {"output", node.output},
                      {"parameters", node.parameters},
                      {"macs", node.macs}});
    return list;
  }

  static std::vector<std::string> slot_nodes(const Graph& graph, const ChannelMap& map,
                                             const std::vector<size_t>& slots) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const size_t slot : slots) {
      const std::string& node = graph.nodes[map.slots[slot].node].name;
      if (seen.insert(node).second) names.push_back(node);
    }
    return names;
  }

  static nlohmann::json groups_json(const Graph& graph, const ChannelMap& map, const ExchangeMap& exchange) {
    auto list = nlohmann::json::array();
    for (const auto& group : map.groups) {
      const GroupExchange order = exchange_in(exchange, map, group);
      list.push_back({{"name", group.name},
                      {"channels", group.channels.size()},
                      {"frozen", group.frozen},
                      {"prunable", group.prunable()},
                      {"reason", group.reason},
                      {"permutable", order.permutable},
                      {"not_permutable", order.fixed},
                      {"blocks", order.blocks},
                      {"not_permutable_reason", order.reason},
                      {"producers", slot_nodes(graph, map, group.producers)},
                      {"consumers", slot_nodes(graph, map, group.consumers)}});
    }
    return list;
  }

  void print_summary(Session& session, const Model& model, const ModelCost& cost, const ChannelMap& map) const {
    session.print("{}\n", model.path.empty() ? model_options_.arch + " (freshly initialised)" : model.path);
    const auto show = [&](const char* what, const ValueInfo& info) {
      session.print("  {:<7} {} {} {}\n", what, info.name, type_text(info), dims_text(info));
    };
    for (const auto& info : model.graph.inputs) show("input", info);
    for (const auto& info : model.graph.outputs) show("output", info);
    for (const auto& [name, shape] : map.shapes.assumed)
      session.print("  assumed {} [{}]\n", name, fmt::join(shape, ", "));
    session.print("  {} nodes, {} parameters, {}{} MACs per sample, {} bytes of tensors\n", model.graph.nodes.size(),
                  with_commas(cost.parameters), cost.complete ? "" : "at least ", with_commas(cost.macs),
                  with_commas(cost.bytes));
    size_t shown = 0;
    for (const auto& [value, why] : map.shapes.unknown)
      if (shown++ < 3) session.print("  no shape for '{}': {}\n", value, why);
    if (shown > 3) session.print("  … and for {} more values\n", shown - 3);
  }

  void print_layers(Session& session, const ModelCost& cost) const {
    Table table({"layer", "operator", "output", "parameters", "MACs"});
    for (const auto& node : cost.nodes)
      if (layers_ || node.parameters > 0)
        table.add({node.name, node.op, node.output, with_commas(node.parameters), with_commas(node.macs)});
    session.print("\n{}", table.text());
  }

  // "64 in 8 blocks": a head or a group of a convolution moves as a whole, and channels inside it.
  static std::string order_text(const GroupExchange& order) {
    if (order.blocks == 0) return std::to_string(order.permutable);
    return fmt::format("{} in {} blocks", order.permutable, order.blocks);
  }

  static void print_groups(Session& session, const Graph& graph, const ChannelMap& map, const ExchangeMap& exchange) {
    Table table({"channel group", "channels", "removable", "permutable", "made by", "read by", "why not"});
    for (const auto& group : map.groups) {
      const GroupExchange order = exchange_in(exchange, map, group);
      const bool other_reason = order.fixed > 0 && order.reason != group.reason;
      table.add(
          {group.name, std::to_string(group.channels.size()), std::to_string(group.channels.size() - group.frozen),
           order_text(order), std::to_string(slot_nodes(graph, map, group.producers).size()),
           std::to_string(slot_nodes(graph, map, group.consumers).size()),
           other_reason ? fmt::format("{}{}order: {}", group.reason, group.reason.empty() ? "" : "; ", order.reason)
                        : group.reason});
    }
    if (map.groups.empty())
      session.print("\nno channel groups: {}\n", why_no_channels(graph, map));
    else
      session.print("\n{}", table.text());
  }

  std::string model_;
  ModelOptions model_options_;
  bool layers_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect() { return std::make_unique<Inspect>(); }

}  // namespace pare::cli
