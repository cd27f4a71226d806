// Park, Yang, Hwang, Yang: Attribution Preservation in Network Compression for Reliable Network Interpretation, NeurIPS
// 2020. Published figures are of VGG-16 and its quarter-width student on PASCAL VOC 2012, from the authors' answers to
// the reviewers. Ours are of workflow/attribution_experiment.h on scenes, so that orders compare, not values; with
// `voc`, of VOC too, below full scale on request.
#include <cmath>
#include <map>

#include "experiments/attribution_experiment.h"
#include "experiments/reproduce/papers.h"
#include "pare/error.h"

namespace pare {

namespace {

constexpr const char* kMatches[] = {"none", "ewa", "swa", "sswa"};

std::string match_name(const std::string& setting, const std::string& match) {
  if (match == "none") return setting == "distillation" ? "soft targets alone" : "labels alone";
  return match;
}

struct PublishedFigures {
  const char* match;
  const char* map;
  std::map<std::string, double> figures;
};

const std::vector<PublishedFigures>& published_figures() {
  static const std::vector<PublishedFigures> list = {
      {"teacher", "gradcam", {{"map", 0.9179}, {"f1", 0.7844}, {"auc", 0.8868}, {"point", 0.8016}}},
      {"none", "gradcam", {{"map", 0.8144}, {"f1", 0.6271}, {"auc", 0.8051}, {"point", 0.6918}}},
      {"ewa", "gradcam", {{"map", 0.8231}, {"f1", 0.6316}, {"auc", 0.8423}, {"point", 0.7919}}},
      {"swa", "gradcam", {{"map", 0.8363}, {"f1", 0.6494}, {"auc", 0.8773}, {"point", 0.7991}}},
      {"sswa", "gradcam", {{"map", 0.8437}, {"f1", 0.6627}, {"auc", 0.8813}, {"point", 0.8014}}},
      {"teacher", "ebp", {{"auc", 0.842}, {"point", 0.748}}},
      {"none", "ebp", {{"auc", 0.763}, {"point", 0.663}}},
      {"sswa", "ebp", {{"auc", 0.823}, {"point", 0.712}}},
      {"teacher", "lrp", {{"auc", 0.853}, {"point", 0.655}}},
      {"none", "lrp", {{"auc", 0.796}, {"point", 0.534}}},
      {"sswa", "lrp", {{"auc", 0.825}, {"point", 0.641}}},
      {"teacher", "rap", {{"auc", 0.845}, {"point", 0.695}}},
      {"none", "rap", {{"auc", 0.809}, {"point", 0.569}}},
      {"sswa", "rap", {{"auc", 0.835}, {"point", 0.657}}},
  };
  return list;
}

double published(const std::string& match, const std::string& map, const std::string& metric) {
  for (const auto& entry : published_figures())
    if (entry.match == match && entry.map == map)
      if (const auto found = entry.figures.find(metric); found != entry.figures.end()) return found->second;
  return kNoFigure;
}

// A network of the tables: the teacher, or one compressed with every seed.
struct MapSubject {
  std::string setting, match;
  int64_t seeds = 1;
  bool on_request = false;  // as in TableRow

  bool is_teacher() const { return setting == "teacher"; }
  std::string name(const AttributionExperiment& experiment) const {
    return is_teacher() ? experiment.task().arch : match_name(setting, match);
  }
  std::string file(int64_t seed) const {
    if (is_teacher()) return setting + ".onnx";
    return fmt::format("{}-{}{}.onnx", setting, match, seed == 0 ? "" : fmt::format("-{}", seed));
  }
  Graph network(AttributionExperiment& experiment, int64_t seed) const {
    return is_teacher() ? experiment.teacher() : experiment.compressed(setting, match, seed);
  }
  std::vector<Graph> networks(AttributionExperiment& experiment) const {
    std::vector<Graph> all;
    for (int64_t seed = 0; seed < seeds; ++seed) all.push_back(network(experiment, seed));
    return all;
  }
  // One row a metric.
  std::vector<TableRow> rows(const AttributionExperiment& experiment, const std::string& map) const {
    const bool has_published = is_teacher() || setting == "distillation";
    const TableRow row{.table = fmt::format("{}, {}, {}, maps by {}", setting, experiment.task().name,
                                            training(experiment.scale()), map),
                       .what = name(experiment),
                       .on_request = on_request};
    std::vector<TableRow> rows;
    for (const auto& metric : AttributionFigures::names()) {
      rows.push_back(row);
      rows.back().metric = metric;
      if (!has_published) continue;
      rows.back().published = published(is_teacher() ? setting : match, map, metric);
      if (!std::isnan(rows.back().published)) rows.back().note = published_note(experiment, map);
    }
    return rows;
  }

 private:
  // How what was published differs.
  std::string published_note(const AttributionExperiment& experiment, const std::string& map) const {
    std::string note = "published: the teacher began with ImageNet's weights";
    if (experiment.task().name == AttributionTask{}.name)
      note = fmt::format("published: VGG-16{}, PASCAL VOC 2012", is_teacher() ? "" : " of a quarter of the widths");
    return map == "rap" ? note + "; that the column is RAP is inferred" : note;
  }

  std::string training(const AttributionScale& scale) const {
    std::string epochs = fmt::format("{}", scale.teacher_epochs);
    if (setting == "distillation") epochs += fmt::format(" + {}", scale.student_epochs);
    if (setting == "structured") epochs += fmt::format(" + {}", scale.filter_epochs);
    if (setting == "unstructured") epochs += fmt::format(" + {} x {}", scale.rounds, scale.round_epochs);
    return fmt::format("{} epochs{}{}", epochs, seeds > 1 ? fmt::format(", {} seeds", seeds) : "",
                       test_images_text(scale.test_images));
  }
};

// The teacher's maps are made once for all subjects of one measurement.
void add_subjects(Reproduction& table, AttributionExperiment& experiment, const std::vector<MapSubject>& subjects,
                  const std::string& map) {
  std::vector<TableRow> rows;
  for (const auto& subject : subjects)
    for (auto& row : subject.rows(experiment, map)) rows.push_back(std::move(row));
  table.rows(std::move(rows), [&] {
    if (experiment.task().data.empty())
      throw Error(ErrorKind::file, experiment.task().name, "needs `voc` voc:DIR, the directory of VOCdevkit");
    std::vector<Graph> networks;
    for (const auto& subject : subjects)
      for (auto& network : subject.networks(experiment)) networks.push_back(std::move(network));
    const std::vector<AttributionFigures> all = experiment.measure(networks, map);
    std::vector<SeedMean> figures;
    auto next = all.begin();
    for (const auto& subject : subjects) {
      const std::vector<SeedMean> means = means_of(std::vector(next, next + subject.seeds));
      next += subject.seeds;
      figures.insert(figures.end(), means.begin(), means.end());
    }
    return figures;
  });
}

// F1 of classifiers that never see what the maps call relevant, each by another student; the networks are kept for pare
// explain and localize.
void roar_table(Reproduction& table, AttributionExperiment& experiment, const std::string& fill) {
  const AttributionScale& scale = experiment.scale();
  const TableRow row{
      .table = fmt::format("remove and retrain, {}, distilled students, {} epochs, {}{}{}", experiment.task().name,
                           scale.roar_epochs, fill == "mean" ? "mean colour" : "filled from the neighbours",
                           scale.roar_seeds > 1 ? fmt::format(", {} seeds and students", scale.roar_seeds) : "",
                           test_images_text(scale.test_images)),
      .metric = "f1",
      .on_request = table.options().scale == "small"};
  const auto add = [&](const std::string& maps, const std::function<std::vector<PixelRanking>()>& rankings) {
    std::vector<TableRow> rows;
    for (const double level : scale.roar_levels) {
      rows.push_back(row);
      rows.back().what = fmt::format("{:.0f} % of the pixels removed: {}", 100 * level, maps);
    }
    table.rows(std::move(rows),
               [&] { return experiment.retrained_without(maps, rankings(), fill).figures(row.metric); });
  };
  TableRow whole = row;
  whole.what = "nothing removed";
  table.rows({whole}, [&] { return std::vector<SeedMean>{mean_of(experiment.retrained(), row.metric)}; });
  for (const MapSubject& subject : {MapSubject{"teacher", "none"},
                                    {"distillation", "none", scale.roar_seeds},
                                    {"distillation", "sswa", scale.roar_seeds}})
    add("by maps of " + subject.name(experiment), [&] {
      std::vector<PixelRanking> rankings;
      for (int64_t seed = 0; seed < subject.seeds; ++seed) {
        const Graph model = subject.network(experiment, seed);
        save(model, table.run().path / subject.file(seed), {.force = true});
        rankings.push_back(experiment.ranking(model));
      }
      return rankings;
    });
  for (const char* kind : {"maps", "pixels"})
    add(fmt::format("random {}", kind), [&] { return experiment.random_rankings(kind); });
}

void scenes_tables(Reproduction& table) {
  const ReproduceOptions& options = table.options();
  AttributionScale scale = attribution_scale(options.scale);
  if (options.seeds < 0)
    throw Error(ErrorKind::usage, OptionName{"seeds"}, "expected 0 or more, found {}", options.seeds);
  if (options.seeds > 0) scale.seeds = scale.pruning_seeds = scale.roar_seeds = options.seeds;
  AttributionExperiment experiment({}, scale, options.runs, options.seed, table.trainer());
  std::vector<MapSubject> distilled = {{"teacher", "none"}};
  for (const char* match : kMatches) distilled.push_back({"distillation", match, scale.seeds});
  // Row by row, so that processes can train at once; by the other maps, of networks that are there then, together.
  for (const auto& subject : distilled) add_subjects(table, experiment, {subject}, "gradcam");
  add_subjects(table, experiment, {{"distillation", "at", scale.pruning_seeds, options.scale == "small"}}, "gradcam");
  for (const char* fill : {"mean", "neighbours"}) roar_table(table, experiment, fill);
  for (const char* setting : {"unstructured", "structured"})
    for (const char* match : kMatches)
      add_subjects(table, experiment, {{setting, match, scale.pruning_seeds}}, "gradcam");
  for (const char* map : {"ebp", "lrp", "rap"}) add_subjects(table, experiment, distilled, map);
}

// The paper's own networks, data and epochs; weeks on a small machine.
void voc_tables(Reproduction& table) {
  const ReproduceOptions& options = table.options();
  AttributionScale scale = attribution_scale("full");
  scale.teacher_images = scale.student_images = scale.test_images = 0;
  scale.teacher_epochs = 60;
  scale.student_epochs = 350;
  if (options.seeds > 0) scale.seeds = options.seeds;
  AttributionExperiment experiment(voc_task(options.voc), scale, options.runs, options.seed, table.trainer());
  for (const char* map : {"gradcam", "ebp", "lrp", "rap"})
    for (const char* match : {"teacher", "none", "ewa", "swa", "sswa"}) {
      const bool is_teacher = std::string_view(match) == "teacher";
      MapSubject subject{is_teacher ? "teacher" : "distillation", is_teacher ? "none" : match};
      if (!is_teacher) subject.seeds = scale.seeds;
      subject.on_request = options.scale != "full";
      add_subjects(table, experiment, {subject}, map);
    }
}

}  // namespace

void reproduce_attribution(Reproduction& table) {
  scenes_tables(table);
  voc_tables(table);
}

}  // namespace pare
