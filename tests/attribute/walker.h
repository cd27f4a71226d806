// Walks of relevance for tests.
#pragma once

#include <string>
#include <vector>

#include "attribute/nets.h"
#include "pare/attribute/lrp.h"
#include "pare/attribute/rap.h"
#include "pare/explain.h"

namespace pare {

// Walks of a graph from the classes 0, 1, … of the images in turn.
struct Walker {
  Walker(Graph network, at::Tensor images)
      : graph(std::move(network)), x(std::move(images)), values(values_of(graph, x)) {
    scores = values.at(graph.outputs[0].name);
    classes = at::arange(x.size(0), at::kLong).remainder(scores.size(1));
    score = class_scores(scores, classes);
  }
  at::Tensor lrp(const std::string& preset, const std::string& to = "x") const {
    return from_score(lrp_rule(lrp_preset(preset)), to);
  }
  at::Tensor rap(const std::string& to = "x") const { return from_score(rap_rule(), to); }
  at::Tensor from_score(const LinearRule& rule, const std::string& to = "x") const {
    return walk_back(graph, values, one_hot(scores, classes) * score.unsqueeze(1), to, rule).relevance;
  }
  at::Tensor from_one(const LinearRule& rule, const std::string& to = "x") const {
    return walk_back(graph, values, one_hot(scores, classes), to, rule).relevance;
  }
  std::vector<std::string> layers() const {
    std::vector<std::string> names = {"x"};
    for (const auto& node : graph.nodes)
      if (node.outputs[0] != graph.outputs[0].name) names.push_back(node.outputs[0]);
    return names;
  }

  Graph graph;
  at::Tensor x;
  TensorMap values;
  at::Tensor scores, classes, score;
};

}  // namespace pare
