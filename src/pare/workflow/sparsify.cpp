#include "pare/workflow/sparsify.h"

#include "pare/error.h"
#include "pare/samples/samples.h"
#include "pare/workflow/sparsifier.h"

namespace pare {

// The methods. A new one is a function of Sparsifier (workflow/sparsifier_methods.cpp) and an entry here.
struct SparsifierList {
  static constexpr SparsifierEntry entries[] = {
      {{.name = "cs", .finds_count = true, .rounds = true, .mask_logits = true, .mask_at_end = true},
       &Sparsifier::continuous},
      {{.name = "magnitude", .dense_first = true, .at_once = true}, &Sparsifier::magnitude},
      {{.name = "gmp", .masks_in_training = true, .mask_at_end = true}, &Sparsifier::gradual},
      {{.name = "imp", .dense_first = true, .rounds = true, .rounds_say = true}, &Sparsifier::prune_rewound},
      {{.name = "imp-continued", .dense_first = true, .rounds = true, .rounds_say = true},
       &Sparsifier::iterative_continued},
      {{.name = "l0", .finds_count = true, .mask_at_end = true}, &Sparsifier::hard_concrete},
      {{.name = "slimming", .whole_channels = true}, &Sparsifier::slimming},
      {{.name = "wanda", .one_shot = true, .at_once = true}, &Sparsifier::one_shot},
      {{.name = "obs", .one_shot = true, .solves = true, .at_once = true}, &Sparsifier::one_shot},
      {{.name = "lr-rewind", .dense_first = true, .rounds = true}, &Sparsifier::rate_rewinding},
      {{.name = "weight-rewind", .dense_first = true, .rounds = true, .early_weights = true},
       &Sparsifier::prune_rewound},
  };
};

const SparsifierEntry& find_sparsifier(const std::string& name) {
  for (const auto& entry : SparsifierList::entries)
    if (name == entry.traits.name) return entry;
  throw Error(ErrorKind::usage, OptionName{"method"}, "there is no {}", name);
}

const SparsifierTraits& sparsifier_traits(const std::string& name) { return find_sparsifier(name).traits; }

std::vector<std::string> sparsifiers_with(bool SparsifierTraits::*trait) {
  std::vector<std::string> names;
  for (const auto& entry : SparsifierList::entries)
    if (entry.traits.*trait) names.emplace_back(entry.traits.name);
  return names;
}

std::vector<std::string> sparsifiers() {
  std::vector<std::string> names;
  for (const auto& entry : SparsifierList::entries) names.emplace_back(entry.traits.name);
  return names;
}

SparsifyResult sparsify(const Graph& graph, const Samples& samples, const SparsifyOptions& options,
                        Observer& observer) {
  if (is_one_shot(options.method))
    return sparsify(graph, {samples, options.finetune > 0 ? dataset_of(samples) : Dataset{}}, options,
                    observed_training(observer), observer);
  return sparsify(graph, options.trained, dataset_of(samples), options, observed_training(observer));
}

SparsifyResult sparsify(const Graph& graph, bool trained, const Dataset& data, const SparsifyOptions& options,
                        const Trainer& trainer) {
  if (is_one_shot(options.method)) {
    Observer& nobody = unobserved();
    return sparsify(graph, {samples_of(data, graph), data}, options, trainer, nobody);
  }
  return Sparsifier(graph, trained, data, options, trainer).run();
}

SparsifyResult sparsify(const Graph& graph, const OneShotInput& input, const SparsifyOptions& options,
                        const Trainer& trainer, Observer& observer) {
  return Sparsifier(graph, input, options, trainer, observer).run();
}

bool is_one_shot(const std::string& method) { return sparsifier_traits(method).one_shot; }

}  // namespace pare
