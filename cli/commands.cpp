#include "command.h"

namespace pare::cli {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> list;
  list.push_back(make_inspect());
  list.push_back(make_convert());
  list.push_back(make_verify());
  list.push_back(make_run());
  list.push_back(make_train());
  list.push_back(make_eval());
  list.push_back(make_explain());
  list.push_back(make_localize());
  list.push_back(make_roar());
  list.push_back(make_compress());
  list.push_back(make_prune());
  list.push_back(make_fuse());
  list.push_back(make_distill());
  list.push_back(make_sparsify());
  list.push_back(make_quantize());
  list.push_back(make_tickets());
  list.push_back(make_bench());
  list.push_back(make_diff());
  list.push_back(make_report());
  list.push_back(make_reproduce());
  list.push_back(make_launch());
  list.push_back(make_data());
  list.push_back(make_completions());
  return list;
}

}  // namespace pare::cli
