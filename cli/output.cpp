#include "output.h"

#include "pare/core/file.h"
#include "pare/core/version.h"

namespace pare::cli {

std::vector<std::string> write_model(Session& session, Graph graph, const std::string& output,
                                     const std::vector<std::string>& inputs, SaveOptions options) {
  session.ranks.barrier();  // nobody looks for the file any more
  if (!session.ranks.main()) return {};
  std::vector<std::string> digests;
  for (const auto& input : inputs)
    if (!input.empty()) digests.push_back(sha256_of_file(input));
  graph.metadata["pare.version"] = kVersion;
  graph.metadata["pare.recipe"] = json_text(session.recipe);
  if (!digests.empty()) graph.metadata["pare.input_sha256"] = fmt::format("{}", fmt::join(digests, " "));
  if (options.opset == 0) options.opset = graph.source_opset != 0 ? graph.source_opset : SaveOptions{}.opset;
  auto notes = save_model(graph, output, options);
  for (const auto& note : notes) session.say("note: {}\n", note);
  return notes;
}

}  // namespace pare::cli
