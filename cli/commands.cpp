#include <algorithm>
#include <iterator>

#include "command.h"

namespace pare::cli {

namespace {

template <typename... Commands>
CommandFamily family(std::string_view heading, Commands... commands) {
  CommandFamily made{.heading = heading, .commands = {}};
  (made.commands.push_back(std::move(commands)), ...);
  return made;
}

}  // namespace

std::vector<CommandFamily> command_families() {
  std::vector<CommandFamily> families;
  families.push_back(
      family("look at a model", make_inspect(), make_eval(), make_bench(), make_diff(), make_verify(), make_run()));
  families.push_back(family("make it smaller", make_compress(), make_prune(), make_sparsify(), make_quantize(),
                            make_distill(), make_fuse()));
  families.push_back(family("see what it looks at", make_explain(), make_localize(), make_roar()));
  families.push_back(family("train and study", make_train(), make_tickets(), make_reproduce(), make_launch()));
  families.push_back(family("files and pages", make_convert(), make_data(), make_report(), make_completions()));
  return families;
}

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> list;
  for (auto& [heading, commands] : command_families())
    std::move(commands.begin(), commands.end(), std::back_inserter(list));
  return list;
}

}  // namespace pare::cli
